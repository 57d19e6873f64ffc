#include "storage/mapping/headers.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace outbox {
namespace {

constexpr std::size_t kHeadersMax = 1000;

// Takes the members of one flat object. The parser stops as soon as a method returns false.
class HeaderSax final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderSax(std::vector<Header>& headers) : headers_(headers) {}

  const std::string& defect() const { return defect_; }

  bool null() override { return refuse("null"); }
  bool boolean(bool value) override { return take(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override { return take(std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) override { return take(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { return take(text); }
  bool string(std::string& value) override { return take(std::move(value)); }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool start_array(std::size_t) override { return refuse("an array"); }
  bool end_array() override { return true; }
  bool start_object(std::size_t) override {
    if (inside_) return refuse("an object");
    inside_ = true;
    return true;
  }
  bool end_object() override { return true; }
  bool key(std::string& name) override {
    name_ = std::move(name);
    if (!names_.insert(name_).second) {
      return fail(fmt::format("member {} repeats the name '{}'", headers_.size() + 1, name_));
    }
    if (headers_.size() == kHeadersMax)
      return fail(fmt::format("more than {} members", kHeadersMax));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return fail(fmt::format("no valid JSON at byte {}", position));
  }

 private:
  bool take(std::string value) {
    if (!inside_) return fail("not a JSON object, but a single value");
    headers_.push_back({name_, std::move(value)});
    return true;
  }
  bool refuse(const char* what) {
    if (!inside_) return fail(fmt::format("not a JSON object, but {}", what));
    return fail(fmt::format("member {} ('{}') is {}: only texts, numbers and booleans can be sent",
                            headers_.size() + 1, name_, what));
  }
  bool fail(std::string defect) {
    if (defect_.empty()) defect_ = std::move(defect);
    return false;
  }

  std::vector<Header>& headers_;
  std::unordered_set<std::string> names_;
  std::string name_;
  std::string defect_;
  bool inside_ = false;
};

// How many bytes the character that begins with `lead` has, and the range of its second byte.
struct CharacterForm {
  std::size_t length = 0;
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xbf;
};

CharacterForm form_of(unsigned char lead) {
  if (lead < 0x80) return {.length = 1};
  if (lead < 0xc2) return {};
  if (lead < 0xe0) return {.length = 2};
  if (lead == 0xe0) return {.length = 3, .second_min = 0xa0};
  if (lead == 0xed) return {.length = 3, .second_max = 0x9f};
  if (lead < 0xf0) return {.length = 3};
  if (lead == 0xf0) return {.length = 4, .second_min = 0x90};
  if (lead < 0xf4) return {.length = 4};
  if (lead == 0xf4) return {.length = 4, .second_max = 0x8f};
  return {};
}

// How many bytes there are, in whole words, before the first one that is not ASCII.
std::size_t ascii_prefix(std::string_view bytes) {
  std::uint64_t word = 0;
  std::size_t i = 0;
  for (; i + sizeof(word) <= bytes.size(); i += sizeof(word)) {
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  return i;
}

}  // namespace

std::optional<std::string> parse_headers(std::string_view json, std::vector<Header>& headers) {
  HeaderSax sax(headers);
  if (nlohmann::json::sax_parse(json, &sax)) return std::nullopt;
  headers.clear();
  return sax.defect();
}

bool is_utf8(std::string_view bytes) {
  std::size_t i = ascii_prefix(bytes);
  while (i < bytes.size()) {
    const auto byte = [&](std::size_t offset) {
      return static_cast<unsigned char>(bytes[i + offset]);
    };
    if (byte(0) < 0x80) {  // most of what is written
      ++i;
      continue;
    }
    const CharacterForm form = form_of(byte(0));
    if (form.length == 0 || form.length > bytes.size() - i) return false;
    if (form.length > 1 && (byte(1) < form.second_min || byte(1) > form.second_max)) return false;
    for (std::size_t k = 2; k < form.length; ++k) {
      if ((byte(k) & 0xc0) != 0x80) return false;
    }
    i += form.length;
  }
  return true;
}

}  // namespace outbox
