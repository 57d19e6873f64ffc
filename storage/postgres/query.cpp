#include "storage/postgres/query.h"

#include <charconv>
#include <limits>
#include <string_view>

namespace outbox::postgres {
namespace {

constexpr Oid kBool = 16;
constexpr Oid kBytea = 17;
constexpr Oid kXidArray = 1011;
constexpr Oid kInt8Array = 1016;
constexpr Oid kTextArray = 1009;
constexpr Oid kTimestamptzArray = 1185;

// The protocol counts microseconds from the year 2000.
constexpr std::int64_t kEpoch = 946'684'800'000'000;

template <class Integer>
std::string encoded(Integer value) {
  std::string bytes(sizeof(Integer), '\0');
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    bytes[sizeof(Integer) - 1 - i] =
        static_cast<char>(static_cast<std::make_unsigned_t<Integer>>(value) >> 8 * i);
  }
  return bytes;
}

std::string encoded_time(ServerTime time) {
  return encoded<std::int64_t>(time.time_since_epoch().count() - kEpoch);
}

std::int64_t decoded(std::string_view bytes) {
  std::uint64_t value = 0;
  if (!bytes.empty() && (static_cast<unsigned char>(bytes[0]) & 0x80) != 0 && bytes.size() > 1) {
    value = ~std::uint64_t{0};
  }
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return static_cast<std::int64_t>(value);
}

}  // namespace

void Parameters::add(std::int64_t value) { values_.push_back({kInt8, encoded(value)}); }

void Parameters::add(bool value) { values_.push_back({kBool, std::string(1, value ? 1 : 0)}); }

void Parameters::add(ServerTime value) { values_.push_back({kTimestamptz, encoded_time(value)}); }

void Parameters::add(std::string_view value) { values_.push_back({kText, std::string(value)}); }

void Parameters::add(const Bytes& value) { values_.push_back({kBytea, value.bytes}); }

Bound Parameters::bound() const {
  Bound bound;
  for (const Value& value : values_) {
    bound.types.push_back(value.type);
    bound.values.push_back(value.null ? nullptr : value.bytes.data());
    bound.lengths.push_back(static_cast<int>(value.bytes.size()));
    bound.formats.push_back(1);
  }
  return bound;
}

Parameters::Array::Array(Parameters& owner, Oid element, std::size_t size)
    : owner_(owner), element_(element), size_(size) {}

void Parameters::Array::append(std::int64_t value) {
  items_ += encoded<std::int32_t>(sizeof value) + encoded(value);
}

void Parameters::Array::append(ServerTime value) {
  items_ += encoded<std::int32_t>(sizeof(std::int64_t)) + encoded_time(value);
}

void Parameters::Array::append(TransactionId value) {
  items_ += encoded<std::int32_t>(sizeof value.number) + encoded(value.number);
}

void Parameters::Array::append(std::string_view value) {
  items_ += encoded(static_cast<std::int32_t>(value.size()));
  items_ += value;
}

void Parameters::Array::append_null() {
  has_null_ = true;
  items_ += encoded<std::int32_t>(-1);
}

void Parameters::Array::finish() {
  const Oid type = element_ == kInt8   ? kInt8Array
                   : element_ == kText ? kTextArray
                   : element_ == kXid  ? kXidArray
                                       : kTimestamptzArray;
  const std::int32_t dimensions = size_ == 0 ? 0 : 1;
  std::string bytes = encoded(dimensions) + encoded<std::int32_t>(has_null_ ? 1 : 0) +
                      encoded(static_cast<std::int32_t>(element_));
  if (size_ > 0) {
    bytes += encoded(static_cast<std::int32_t>(size_)) + encoded<std::int32_t>(1) + items_;
  }
  owner_.values_.push_back({type, std::move(bytes)});
}

std::int64_t Rows::changed() const {
  const std::string_view text = libpq().PQcmdTuples(result_.get());
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string_view Rows::view(int column) const {
  const auto length = static_cast<std::size_t>(libpq().PQgetlength(result_.get(), row_, column));
  return {libpq().PQgetvalue(result_.get(), row_, column), length};
}

std::int64_t Rows::integer(int column) const { return decoded(view(column)); }

TransactionId Rows::transaction(int column) const {
  std::uint32_t number = 0;
  for (const char byte : view(column)) number = number << 8 | static_cast<unsigned char>(byte);
  return {number};
}

ServerTime Rows::time(int column) const {
  const std::int64_t value = decoded(view(column));
  if (value == std::numeric_limits<std::int64_t>::min()) return ServerTime::min();
  if (value > std::numeric_limits<std::int64_t>::max() - kEpoch) return ServerTime::max();
  return ServerTime(std::chrono::microseconds(value + kEpoch));
}

std::optional<std::int64_t> Rows::maybe_integer(int column) const {
  return null(column) ? std::nullopt : std::optional(integer(column));
}

std::optional<std::string> Rows::maybe_text(int column) const {
  return null(column) ? std::nullopt : std::optional(text(column));
}

std::optional<ServerTime> Rows::maybe_time(int column) const {
  return null(column) ? std::nullopt : std::optional(time(column));
}

Rows Query::run_with(const Parameters& parameters) {
  const Bound bound = parameters.bound();
  if (!connection_->prepares()) return Rows(connection_->run(sql_, bound));
  prepare(bound);
  return Rows(connection_->run_prepared(name_, bound));
}

Ahead Query::send_with(const Parameters& parameters) {
  if (!connection_->prepares()) return Ahead(run_with(parameters));
  const Bound bound = parameters.bound();
  prepare(bound);
  return {*connection_, connection_->queue_prepared(name_, bound)};
}

void Query::prepare(const Bound& bound) {
  if (!name_.empty()) return;
  const std::string name = connection_->next_name();
  connection_->prepare(name, sql_, bound.types);
  name_ = name;
}

}  // namespace outbox::postgres
