#include "storage/mapping/settings_check.h"

#include <utility>

namespace outbox {
namespace {

// Tries each setting by itself, beside good ones, so that all that are wrong are told at once.
class SettingsCheck {
 public:
  SettingsCheck(const StoreSettings& settings, const Dialect& dialect)
      : settings_(settings), dialect_(dialect) {}

  std::vector<SettingDefect> run(const std::function<void(const std::string&)>& read_url) {
    attempt("url", [&] { read_url(settings_.url); });
    alone("table", [this](StoreSettings& part) { part.table = settings_.table; });
    alone("preset", [this](StoreSettings& part) { part.preset = settings_.preset; });
    alone("times", [this](StoreSettings& part) { part.times = settings_.times; });
    alone("guids", [this](StoreSettings& part) { part.guids = settings_.guids; });
    for (const auto& column : settings_.columns) {
      alone("columns." + column.first, [&](StoreSettings& part) { part.columns = {column}; });
    }
    for (const auto& state : settings_.states) {
      // Without a status column, since two states that are exchanged look alike one by one.
      alone("states." + state.first, [&](StoreSettings& part) {
        part.columns = {{"status", ""}};
        part.states = {state};
      });
    }
    if (defects_.empty()) attempt("states", [this] { mapping_of(settings_, dialect_); });
    return std::move(defects_);
  }

 private:
  template <class Try>
  void attempt(const std::string& setting, const Try& what) {
    try {
      what();
    } catch (const SettingsError& error) {
      defects_.push_back({setting, error.what()});
    }
  }

  template <class Change>
  void alone(const std::string& setting, const Change& change) {
    StoreSettings part;
    change(part);
    attempt(setting, [&] { mapping_of(part, dialect_); });
  }

  const StoreSettings& settings_;
  const Dialect& dialect_;
  std::vector<SettingDefect> defects_;
};

}  // namespace

std::vector<SettingDefect> check_settings(const StoreSettings& settings, const Dialect& dialect,
                                          const std::function<void(const std::string&)>& read_url) {
  return SettingsCheck(settings, dialect).run(read_url);
}

}  // namespace outbox
