#include "processors/dead_letters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::HasSubstr;

DeadLetter LetterAt(int64_t offset) {
  DeadLetter letter;
  letter.set_offset(offset);
  letter.set_reason("the key is not a row number");
  letter.set_value(std::string(100, 'x'));
  return letter;
}

// While no row comes nobody can take them, and anybody may write them.
TEST(DeadLetters, AFloodOfRecordsThatAreNoRowsIsCountedAndNotKept) {
  DeadLetters letters;
  for (int64_t offset = 0; offset < 5000; ++offset) letters.Add(7, false, LetterAt(offset));
  EXPECT_EQ(letters.size(), DeadLetters::kMostForeign);
  EXPECT_LE(letters.bytes(), 100 * DeadLetters::kMostForeign);
  const std::vector<DeadLetter> kept = letters.Between(7, 8);
  ASSERT_EQ(kept.size(), DeadLetters::kMostForeign);
  EXPECT_EQ(kept.front().offset(), 0);
  EXPECT_THAT(kept.back().reason(), HasSubstr("4900 more records after it are not rows either"));
  letters.Add(7, true, LetterAt(5000));
  letters.Add(8, false, LetterAt(5001));
  EXPECT_EQ(letters.Between(7, 9).size(), DeadLetters::kMostForeign + 2)
      << "each row that cannot be decoded has its letter, and the next number its own hundred";
  BufferPosition saved;
  letters.Save(8, saved);
  DeadLetters restored;
  restored.Restore(saved);
  EXPECT_EQ(restored.Between(7, 8).size(), DeadLetters::kMostForeign + 1);
  EXPECT_THAT(restored.Between(7, 8)[99].reason(), HasSubstr("4900 more"));
  letters.Forget(9);
  EXPECT_EQ(letters.bytes(), 0u);
}

}  // namespace
}  // namespace millrace
