#include "relay/app/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "relay/app/config.h"
#include "relay/app/exit_codes.h"

namespace outbox {
namespace {

// A line of text: no letter of it is taken for a request, a font change or a typographic dash.
std::string plain(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\\') {
      result += "\\e";
    } else if (letter == '-') {
      result += "\\-";
    } else if (letter == '\'') {
      result += "\\(aq";
    } else if (letter == '`') {
      result += "\\(ga";
    } else {
      result += letter;
    }
  }
  return text.starts_with('.') ? "\\&" + result : result;
}

std::string bold(const std::string& text) { return "\\fB" + plain(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + plain(text) + "\\fR"; }

// A flag's help is no sentence by itself.
std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  while (text.ends_with('.')) text.pop_back();
  return text;
}

std::string flag_heading(const CommandFlag& flag) {
  if (flag.positional) return italic(flag.names.front());
  std::string text;
  for (const auto& name : flag.names) text += (text.empty() ? "" : ", ") + bold(name);
  return flag.type.empty() ? text : text + " " + italic(flag.type);
}

std::string flag_entry(const CommandFlag& flag) {
  std::string text = fmt::format(".TP\n{}\n{}", flag_heading(flag), plain(sentence(flag.help)));
  // Most help names the choices itself.
  const bool named = std::ranges::all_of(flag.choices, [&](const std::string& choice) {
    return flag.help.find(choice) != std::string::npos;
  });
  for (std::size_t index = 0; !named && index < flag.choices.size(); ++index) {
    text += (index == 0 ? "; one of " : ", ") + bold(flag.choices[index]);
  }
  return text + ".\n";
}

std::string command_section(const CommandNode& node) {
  std::string text = fmt::format(".SS {}\n{}.\n", plain(node.path), plain(sentence(node.help)));
  for (const auto& flag : node.flags) {
    // Those of the program itself stand above.
    const bool help = flag.names.back() == "--help" || flag.names.back() == "--help-all";
    if (!flag.common && !help) text += flag_entry(flag);
  }
  return text;
}

std::string common_flags(const CommandNode& root) {
  std::string text = ".SH OPTIONS\nThese may stand before a command and behind it.\n";
  for (const auto& flag : root.flags) text += flag_entry(flag);
  return text;
}

std::string configuration() {
  return fmt::format(
      ".SH CONFIGURATION\n"
      "Flags win over environment variables, those over the file, that over its profile, that over "
      "the defaults.\n"
      "{0} prints all settings with their defaults,\n{1} a JSON Schema of the file.\n"
      "The file is read again when it changes, and on SIGHUP.\n"
      ".SH ENVIRONMENT\n.TP\n.B OUTBOX_RELAY__SECTION__KEY\n"
      "Any setting, its path in upper case: OUTBOX_RELAY__RELAY__BATCHSIZE=50.\n"
      ".SH FILES\n.TP\n{2}\nThe configuration, unless {3} names another file.\n",
      bold("outbox-relay print-config --defaults"), bold("outbox-relay print-config --schema"),
      italic(kDefaultConfigFile), bold("--config"));
}

std::string exit_codes() {
  constexpr std::array<std::pair<int, const char*>, 8> kCodes = {
      {{kDone, "Done."},
       {kFailed, "Failed, or a check found something."},
       {kUsage, "The command line is wrong."},
       {kNotReachable, "Something is not reachable."},
       {kNotFound, "Nothing was found."},
       {kConflict, "A conflict, or an outdated schema."},
       {kPartlyDone, "Partly done."},
       {kBadConfiguration, "The configuration is wrong."}}};
  std::string text = ".SH \"EXIT STATUS\"\n";
  for (const auto& [code, meaning] : kCodes) text += fmt::format(".TP\n.B {}\n{}\n", code, meaning);
  return text;
}

}  // namespace

std::string man_page(const CommandNode& root, const std::string& version) {
  std::string text = fmt::format(
      ".TH OUTBOX\\-RELAY 1 \"\" \"outbox\\-relay {0}\" \"User Commands\"\n"
      ".SH NAME\noutbox\\-relay \\- relay messages from an outbox table to a message broker\n"
      ".SH SYNOPSIS\n{1}\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
      ".SH DESCRIPTION\n{2}\n"
      "Data goes to standard output, talk to standard error.\n.PP\n"
      "{3} makes the outbox table. One that is there already is drained as well: {4} proposes its "
      "settings, {5} says what is to become of its old rows, and then {6} begins.\n",
      plain(version), bold("outbox-relay"), plain(root.help), bold("init --apply"),
      bold("mapping detect"), bold("adopt"), bold("run"));
  text += common_flags(root);
  text += ".SH COMMANDS\n";
  for (const auto* node : all_commands(root)) {
    if (!node->path.empty()) text += command_section(*node);
  }
  return text + configuration() + exit_codes();
}

}  // namespace outbox
