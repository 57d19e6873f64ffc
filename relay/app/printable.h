// Text from outside made safe to show: on a terminal, in a log, in an error.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

// Appends `text` to `out`, at most `room` bytes of it, cutting between characters. Control
// characters, characters that reorder or hide text (bidirectional marks, zero-width ones, line
// separators), quotes and backslashes become \uXXXX or their short JSON escapes; bytes that are not
// UTF-8 become \ufffd. The result fits between the quotes of a JSON string. False if it was cut.
bool append_escaped(std::string& out, std::string_view text, std::size_t room);

// The same for people: one line of at most `limit` bytes, "..." where it was cut.
std::string printable(std::string_view text, std::size_t limit = 200);

// The same for a sentence of ours that may quote such text: its own quotes stay as they are.
std::string printable_sentence(std::string_view text, std::size_t limit = 2000);

// One word for a shell, whatever is in it.
std::string shell_quoted(std::string_view text);

// A URL without what may be secret: the password, and query values named like a credential.
std::string redacted_url(std::string_view url);

// The user part of the URL holds a password.
bool has_password(std::string_view url);

}  // namespace outbox
