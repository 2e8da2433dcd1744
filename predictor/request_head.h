// Whether an HTTP/1 request's head leaves no doubt where its body ends.
#pragma once

#include <cstddef>
#include <string_view>

namespace millrace {

// Takes the headers of one request in any order. Where two servers, this one and a proxy before it,
// see different ends of a request, they see different requests after it: who sends it can hide one
// ("request smuggling"). So a head that leaves room for doubt is refused (RFC 9112, 6.3), also what
// libmicrohttpd 0.9.75 takes for a header with another name: it keeps a space before the colon, and
// of a header that goes on in the next line it appends that line to the name.
class RequestHead {
 public:
  // The request line's, such as HTTP/1.1.
  explicit RequestHead(std::string_view version) : version_(version) {}

  // Names are without regard to case. Keeps neither of the two.
  void Add(std::string_view name, std::string_view value);

  // Empty: it is clear. Plain ASCII without quotes.
  std::string_view WhyEndIsUnclear() const;

 private:
  std::string_view version_;
  size_t lengths_ = 0;    // Content-Length
  size_t encodings_ = 0;  // Transfer-Encoding
  bool are_lengths_numbers_ = true;
  bool is_chunked_ = true;
  bool are_names_plain_ = true;
  bool are_values_plain_ = true;
};

}  // namespace millrace
