// From the registry to the text that Prometheus reads.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace outbox {

inline constexpr const char* kExpositionType = "text/plain; version=0.0.4; charset=utf-8";

// Families in order of their names and series in order of their labels, so that two scrapes can be
// compared. A family without series keeps its HELP and TYPE.
std::string to_exposition(std::vector<prometheus::MetricFamily> families);

}  // namespace outbox
