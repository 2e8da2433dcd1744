// A client of a schema registry (its published REST interface): schemas by their ids, and those
// that they refer to by their subjects and versions.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "formats/registry_answer.h"

namespace millrace {

// Used by one thread.
class SchemaRegistry {
 public:
  struct Options {
    std::string url;        // http://HOST[:PORT][/PATH] or https
    std::string user_file;  // its one line is USER:PASSWORD; empty: nobody logs in
    std::string ca_file;  // PEM, of those who may have signed its certificate; empty: the system's
    // true: a question that is under way ends. Outlives the client.
    const std::atomic<bool>* stop = nullptr;
  };

  // Connects to nobody. InvalidArgument: the URL is none; FailedPrecondition: of a file.
  static StatusOr<std::unique_ptr<SchemaRegistry>> Create(const Options& options);
  virtual ~SchemaRegistry() = default;

  // The body of GET /schemas/ids/{id}, in 10 s at most. NotFound: there is no such schema;
  // Unavailable: nobody answers, or not now; PermissionDenied: the login is not accepted;
  // Cancelled: stopped; FailedPrecondition: any other answer, which is none of a registry. All name
  // the URL, and none the password.
  virtual StatusOr<std::string> Schema(uint32_t id) = 0;
  // The body of GET /subjects/{subject}/versions/{version}; likewise.
  virtual StatusOr<std::string> Schema(const SchemaReference& reference) = 0;
};

}  // namespace millrace
