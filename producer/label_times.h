// The labels of one key, by their times: the first that was written of those in a span of time.
#pragma once

#include <cstdint>

namespace millrace {

// A search tree whose nodes are in the labels themselves, since most keys have one label. All calls
// take a time of the order of the logarithm of the number of labels, in whatever order their times
// are. Not thread-safe.
class LabelTimes {
 public:
  // What a label has of the tree. It stays where it is until it is removed.
  struct Node {
    int64_t time_ms = 0;
    int64_t offset = 0;  // of no other node of the tree
    // The tree's:
    Node* left = nullptr;
    Node* right = nullptr;
    Node* first = nullptr;  // of the lowest offset, of this one and all below it
  };

  bool empty() const { return root_ == nullptr; }
  void Add(Node& node);
  void Remove(const Node& node);  // REQUIRES that it was added
  // The one of the lowest offset of those in [begin_ms, end_ms]; null: there is none.
  Node* First(int64_t begin_ms, int64_t end_ms) const;

 private:
  Node* root_ = nullptr;
};

}  // namespace millrace
