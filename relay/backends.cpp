#include "relay/backends.h"

namespace outbox {

std::string scheme_of(const std::string& url) {
  const auto colon = url.find(':');
  return colon == std::string::npos ? std::string{} : url.substr(0, colon);
}

std::string describe(const std::vector<SettingDefect>& defects) {
  std::string text;
  for (const SettingDefect& defect : defects) {
    text += (text.empty() ? "" : "; ") + defect.setting + ": " + defect.text;
  }
  return text;
}

}  // namespace outbox
