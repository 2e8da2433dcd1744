// The schemas of a registry, by the ids that records have: each is asked for once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "formats/avro_schema.h"
#include "producer/schema_references.h"

namespace millrace {

// Not thread-safe.
class SchemaCache {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Schema = std::shared_ptr<const AvroSchema>;
  // The registry's answer to a question for this id. NotFound: it has no such schema; Unavailable:
  // it is away. All errors name the registry.
  using Fetch = std::function<StatusOr<std::string>(uint32_t id)>;

  using Say = std::function<void(const std::string& line)>;

  // `fetch_reference` is asked for the schemas that others refer to. `say` gets the
  // reason why records of a schema cannot be used, of kMostLines schemas; who says it adds what
  // becomes of them. `now` is for tests. A thread of the cache
  // calls the first two, one question at a time; the destructor waits for the one under way.
  SchemaCache(Fetch fetch, FetchReference fetch_reference, Say say,
              std::function<Time()> now = std::chrono::steady_clock::now)
      : fetch_(std::move(fetch)),
        fetch_reference_(std::move(fetch_reference)),
        say_(std::move(say)),
        now_(std::move(now)) {}

  // InvalidArgument, with the reason: the registry has no such schema, not one that can be used, or
  // not one that it refers to.
  // That it has none is believed for kUnknownFor: an id may reach a registry's copy after its
  // records. Others are those of Fetch, or FailedPrecondition: the answer is none of a registry.
  // They are not kept. Unavailable, marked as pending, until there is an answer: ask again.
  StatusOr<Schema> Get(uint32_t id);

  // Ids of registries are signed, in 32 bits. One above is not asked for, since the answer would
  // not tell a record that has no id from a URL that is wrong, and nothing is said of it.
  static constexpr uint32_t kHighestId = std::numeric_limits<int32_t>::max();
  static constexpr std::chrono::seconds kUnknownFor{10};
  // So many are kept; a topic has a few, but foreign bytes may name any.
  static constexpr size_t kMost = 1000;
  static constexpr int kMostLines = 20;

 private:
  struct Entry {
    StatusOr<Schema> schema;
    Time until;  // it is asked for again
  };

  struct Answer {
    StatusOr<Schema> schema;
    bool may_come = false;  // what is not there
  };

  Answer Ask(uint32_t id) const;
  StatusOr<Schema> AskInBackground(uint32_t id);
  StatusOr<Schema> Keep(uint32_t id, const Answer& answer);

  const Fetch fetch_;
  const FetchReference fetch_reference_;
  const Say say_;
  const std::function<Time()> now_;
  int lines_ = 0;
  std::map<uint32_t, Entry> entries_;
  uint32_t asked_ = 0;  // by the question that is under way
  // Destroyed first: its thread uses the others.
  std::future<Answer> question_;
};

}  // namespace millrace
