// The configuration's keys as a JSON Schema, for editors and for checks before a deployment.
#pragma once

#include <string>

namespace outbox {

// Draft 2020-12, with a line feed at its end. What the program accepts, the schema accepts, whether
// a YAML reader makes `50` a number or a text; it refuses unknown keys and values of a wrong kind.
// What only the program judges: values that contradict each other, what a variable holds, ranges of
// durations and sizes.
std::string config_schema();

}  // namespace outbox
