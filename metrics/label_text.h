// What may stand in a label's value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace outbox {

// Not empty, at most `length_max` bytes, valid UTF-8 and free of control characters. One label that
// is not valid UTF-8 makes Prometheus refuse the whole scrape.
bool is_label_text(std::string_view text, std::size_t length_max);

// A broker's URL without user, password, query and fragment, any of which may hold a secret. Where
// it can't be told what is secret, only the scheme is left.
std::string without_secrets(std::string_view url);

}  // namespace outbox
