#include "predictor/request_head.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace millrace {
namespace {

constexpr std::string_view kLength = "Content-Length";
constexpr std::string_view kEncoding = "Transfer-Encoding";

bool EqualsInAnyCase(std::string_view a, std::string_view b) {
  return absl::EqualsIgnoreCase({a.data(), a.size()}, {b.data(), b.size()});
}

// RFC 9110, 5.6.2.
bool IsTokenCharacter(char c) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kOthers.find(c) != kOthers.npos;
}

bool IsControl(char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '\t'; }

bool GoesOn(std::string_view name, std::string_view known) {
  return name.size() > known.size() && EqualsInAnyCase(name.substr(0, known.size()), known);
}

}  // namespace

void RequestHead::Add(std::string_view name, std::string_view value) {
  are_names_plain_ = are_names_plain_ && std::ranges::all_of(name, IsTokenCharacter) &&
                     !GoesOn(name, kLength) && !GoesOn(name, kEncoding);
  are_values_plain_ = are_values_plain_ && std::ranges::none_of(value, IsControl);
  if (EqualsInAnyCase(name, kLength)) {
    ++lengths_;
    are_lengths_numbers_ =
        are_lengths_numbers_ && !value.empty() && std::ranges::all_of(value, absl::ascii_isdigit);
  } else if (EqualsInAnyCase(name, kEncoding)) {
    ++encodings_;
    is_chunked_ = is_chunked_ && EqualsInAnyCase(value, "chunked");
  }
}

std::string_view RequestHead::WhyEndIsUnclear() const {
  if (!are_names_plain_) {
    return "the name of a header has a character that RFC 9110 does not allow, or its value goes "
           "on in the next line; each header is one line, NAME: VALUE";
  }
  if (!are_values_plain_) return "the value of a header has a control character";
  if (lengths_ > 1) return "Content-Length is given twice";
  if (lengths_ > 0 && encodings_ > 0) return "Content-Length stands beside Transfer-Encoding";
  if (!are_lengths_numbers_) return "Content-Length is no number of digits only";
  if (encodings_ > 1) return "Transfer-Encoding is given twice";
  if (!is_chunked_) return "Transfer-Encoding is not chunked; send that, or Content-Length";
  if (encodings_ > 0 && version_ == "HTTP/1.0") return "HTTP/1.0 has no Transfer-Encoding";
  return "";
}

}  // namespace millrace
