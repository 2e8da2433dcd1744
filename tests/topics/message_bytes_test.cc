#include "topics/message_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;

TEST(MessageBytes, AreThoseOfTheirPiecesInOrder) {
  const std::vector<float> values = {1, -2};
  std::string floats(values.size() * sizeof(float), '\0');
  std::memcpy(floats.data(), values.data(), floats.size());
  MessageBytes bytes(std::string("head"));
  bytes.AppendView(values);
  MessageBytes more;
  more.Append("tail");
  bytes.AppendAll(std::move(more));
  EXPECT_THAT(bytes.Pieces(), ElementsAre("head", floats, "tail"));
  EXPECT_EQ(bytes.Joined(), "head" + floats + "tail");
  EXPECT_EQ(bytes.size(), 16u);
  // A short string moves with its object.
  const MessageBytes moved = std::move(bytes);
  EXPECT_EQ(moved.Joined(), "head" + floats + "tail");
}

TEST(MessageBytes, OfNothingAreEmpty) {
  MessageBytes bytes;
  bytes.AppendView(std::span<const float>());
  bytes.Append("");
  EXPECT_EQ(bytes.size(), 0u);
  EXPECT_EQ(bytes.Joined(), "");
}

TEST(MessageBytes, KeepWhatTheyViewAsLongAsACopyIsThere) {
  auto values = std::make_shared<const std::vector<float>>(1000, 3.0f);
  const std::weak_ptr<const std::vector<float>> there = values;
  auto bytes = std::make_unique<MessageBytes>();
  bytes->AppendView(*values);
  bytes->Keep(std::move(values));
  auto copy = std::make_unique<MessageBytes>(*bytes);
  bytes.reset();
  EXPECT_FALSE(there.expired());
  copy.reset();
  EXPECT_TRUE(there.expired());
}

}  // namespace
}  // namespace millrace
