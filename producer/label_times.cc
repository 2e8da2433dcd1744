#include "producer/label_times.h"

#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace millrace {
namespace {

using TimesNode = LabelTimes::Node;

bool IsBefore(const TimesNode& a, const TimesNode& b) {
  return std::pair(a.time_ms, a.offset) < std::pair(b.time_ms, b.offset);
}

// A node's rank does not depend on its time, and those above it have higher ones: so the tree is
// about as deep as if the times had come in random order (a treap).
uint64_t RankOf(const TimesNode& node) { return Mix64(static_cast<uint64_t>(node.offset)); }

TimesNode* Earlier(TimesNode* a, TimesNode* b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  return b->offset < a->offset ? b : a;
}

TimesNode* FirstOf(TimesNode* tree) { return tree == nullptr ? nullptr : tree->first; }

void NoteFirst(TimesNode& node) {
  node.first = Earlier(&node, Earlier(FirstOf(node.left), FirstOf(node.right)));
}

// The nodes of `tree` before `node`, and those behind it.
std::pair<TimesNode*, TimesNode*> SplitTree(TimesNode* tree, const TimesNode& node) {
  if (tree == nullptr) return {nullptr, nullptr};
  if (IsBefore(*tree, node)) {
    const auto [before, behind] = SplitTree(tree->right, node);
    tree->right = before;
    NoteFirst(*tree);
    return {tree, behind};
  }
  const auto [before, behind] = SplitTree(tree->left, node);
  tree->left = behind;
  NoteFirst(*tree);
  return {before, tree};
}

// All nodes of `a` are before those of `b`.
TimesNode* JoinTrees(TimesNode* a, TimesNode* b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  TimesNode* const top = RankOf(*a) > RankOf(*b) ? a : b;
  if (top == a) {
    a->right = JoinTrees(a->right, b);
  } else {
    b->left = JoinTrees(a, b->left);
  }
  NoteFirst(*top);
  return top;
}

TimesNode* WithNode(TimesNode* tree, TimesNode& node) {
  if (tree == nullptr || RankOf(node) > RankOf(*tree)) {
    std::tie(node.left, node.right) = SplitTree(tree, node);
    NoteFirst(node);
    return &node;
  }
  TimesNode*& child = IsBefore(*tree, node) ? tree->right : tree->left;
  child = WithNode(child, node);
  NoteFirst(*tree);
  return tree;
}

TimesNode* WithoutNode(TimesNode* tree, const TimesNode& node) {
  MILLRACE_CHECK(tree != nullptr);
  if (tree == &node) return JoinTrees(tree->left, tree->right);
  TimesNode*& child = IsBefore(*tree, node) ? tree->right : tree->left;
  child = WithoutNode(child, node);
  NoteFirst(*tree);
  return tree;
}

}  // namespace

void LabelTimes::Add(Node& node) { root_ = WithNode(root_, node); }

void LabelTimes::Remove(const Node& node) { root_ = WithoutNode(root_, node); }

LabelTimes::Node* LabelTimes::First(int64_t begin_ms, int64_t end_ms) const {
  Node* top = root_;
  while (top != nullptr && (top->time_ms < begin_ms || top->time_ms > end_ms)) {
    top = top->time_ms < begin_ms ? top->right : top->left;
  }
  if (top == nullptr) return nullptr;
  // Those in the span are below it: on its left some, and all on the right of these.
  Node* best = top;
  for (Node* node = top->left; node != nullptr;) {
    const bool is_in = node->time_ms >= begin_ms;
    if (is_in) best = Earlier(best, Earlier(node, FirstOf(node->right)));
    node = is_in ? node->left : node->right;
  }
  for (Node* node = top->right; node != nullptr;) {
    const bool is_in = node->time_ms <= end_ms;
    if (is_in) best = Earlier(best, Earlier(node, FirstOf(node->left)));
    node = is_in ? node->right : node->left;
  }
  return best;
}

}  // namespace millrace
