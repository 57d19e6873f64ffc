#include "metrics/exposition.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>

namespace outbox {

std::string to_exposition(std::vector<prometheus::MetricFamily> families) {
  std::sort(families.begin(), families.end(),
            [](const auto& left, const auto& right) { return left.name < right.name; });
  for (prometheus::MetricFamily& family : families) {
    std::sort(family.metric.begin(), family.metric.end(),
              [](const auto& left, const auto& right) { return left.label < right.label; });
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return std::move(text).str();
}

}  // namespace outbox
