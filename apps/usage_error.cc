#include "apps/usage_error.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/flag_table.h"
#include "base/did_you_mean.h"

namespace millrace {
namespace {

std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string UnknownFlag(const CLI::App& app, const std::string& program, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::string text = absl::StrCat("there is no flag ", name);
  if (const std::string owner = ProgramWithFlag(name); !owner.empty() && owner != program) {
    return absl::StrCat(text, " in this program: it is a flag of ", owner);
  }
  if (const auto near = NearestWord(name, FlagNames(app))) {
    absl::StrAppend(&text, "; did you mean ", *near, "?");
  }
  return text;
}

}  // namespace

std::string UsageError(const CLI::App& app, const std::string& program,
                       const CLI::ParseError& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    // In the order of the command line; the values of an unknown flag are among them.
    const std::vector<std::string> words = app.remaining();
    const auto flag = std::find_if(words.begin(), words.end(), [](const std::string& word) {
      return word.size() > 1 && word[0] == '-';
    });
    text = flag != words.end() ? UnknownFlag(app, program, *flag)
                               : absl::StrCat("'", words.front(),
                                              "' belongs to no flag: values follow their flags, as "
                                              "in --job NAME");
  }
  return absl::StrCat(text, " (", program, " --help lists all flags)");
}

}  // namespace millrace
