// What the program's exit code says to a script.
#pragma once

namespace outbox {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;  // or a check found something
inline constexpr int kUsage = 2;
inline constexpr int kNotReachable = 3;
inline constexpr int kNotFound = 4;
inline constexpr int kConflict = 5;
inline constexpr int kPartlyDone = 6;
inline constexpr int kBadConfiguration = 78;  // EX_CONFIG

// Of an answer that is an error: tables of another version of the program are there.
template <class Answer>
int failure_code(const Answer& answer) {
  return answer.newer ? kConflict : kNotReachable;
}

}  // namespace outbox
