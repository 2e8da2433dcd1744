#include "kafka/known_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kafka/overdue_end.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr KnownEnd::Time kStart{std::chrono::hours(1)};

TEST(KnownEnd, IsReachedByAReaderThatIsToldItAndNotBefore) {
  KnownEnd end(5);
  EXPECT_FALSE(end.is_reached());
  end.Meet(4, kStart);
  EXPECT_FALSE(end.is_reached());
  end.Meet(5, kStart);
  EXPECT_TRUE(end.is_reached());
}

TEST(KnownEnd, IsReachedByAReaderThatIsToldOfNoneSinceRecordsComeAllTheTime) {
  KnownEnd end(5);
  end.Pass(3);
  EXPECT_FALSE(end.is_reached());
  end.Pass(4);
  EXPECT_TRUE(end.is_reached());
  end.Know(8);
  end.Pass(5);
  EXPECT_FALSE(end.is_reached());
  end.Pass(9);  // before it is what ends a transaction
  EXPECT_TRUE(end.is_reached());
}

TEST(KnownEnd, HearsOfWhatAConsumersHandlerIsTold) {
  KnownEnd end(5);
  size_t taken = 0;
  ConsumerHandler handler;
  handler.on_record = [&taken](const ConsumedRecord&) {
    ++taken;
    return absl::OkStatus();
  };
  TellEnd(end, handler);
  ConsumedRecord record;
  record.offset = 3;
  ASSERT_TRUE(handler.on_record(record).ok());
  EXPECT_FALSE(end.is_reached());
  record.offset = 4;
  ASSERT_TRUE(handler.on_record(record).ok());
  EXPECT_TRUE(end.is_reached());
  EXPECT_EQ(taken, 2u);
  end.Know(7);
  handler.on_end(0, 7);
  EXPECT_TRUE(end.is_reached());
}

TEST(KnownEnd, OfAnEmptyPartitionIsReachedWhenABrokerSaysSo) {
  KnownEnd end;
  EXPECT_FALSE(end.is_reached());
  end.Meet(0, kStart);
  EXPECT_TRUE(end.is_reached());
}

TEST(KnownEnd, NeverGoesBack) {
  KnownEnd end(5);
  end.Know(7);
  end.Know(6);
  EXPECT_EQ(end.offset(), 7);
  end.Meet(7, kStart);
  end.Meet(5, kStart + milliseconds(1));  // says the next broker
  EXPECT_TRUE(end.is_reached()) << "what was read stays read";
  end.Know(8);
  EXPECT_FALSE(end.is_reached());
}

TEST(KnownEnd, IsOverdueWhenAnEarlierOneIsSaidForLong) {
  KnownEnd end(5);
  EXPECT_FALSE(end.is_overdue(kStart + 9 * KnownEnd::kPatience)) << "nobody has said anything";
  end.Meet(3, kStart);
  EXPECT_FALSE(end.is_overdue(kStart + KnownEnd::kPatience));
  EXPECT_TRUE(end.is_overdue(kStart + KnownEnd::kPatience + milliseconds(1)));
  end.Meet(3, kStart + milliseconds(1));
  EXPECT_TRUE(end.is_overdue(kStart + KnownEnd::kPatience + milliseconds(1)))
      << "the same end is no news";
  end.Meet(4, kStart + milliseconds(1));
  EXPECT_FALSE(end.is_overdue(kStart + KnownEnd::kPatience + milliseconds(1)))
      << "the broker gets to know the records";
  end.Meet(5, kStart + milliseconds(2));
  EXPECT_FALSE(end.is_overdue(kStart + 9 * KnownEnd::kPatience)) << "it is reached";
}

TEST(KnownEnd, IsOverdueOnlyWhenTheEarlierOneIsSaidForLongSinceItsTimeBeganAgain) {
  KnownEnd end(5);
  end.Meet(3, kStart);
  const auto again = kStart + KnownEnd::kPatience + milliseconds(1);
  end.Restart(again);
  EXPECT_FALSE(end.is_overdue(again + KnownEnd::kPatience));
  EXPECT_TRUE(end.is_overdue(again + KnownEnd::kPatience + milliseconds(1)));
}

TEST(KnownEnd, ThatIsOverdueIsAnErrorThatNamesBothEnds) {
  KnownEnd end(5);
  end.Meet(3, kStart);
  const Status status = end.Overdue("rows", 2);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rows [2] ends at offset 3 according to its broker, but had records before "
                        "offset 5"));
}

}  // namespace
}  // namespace millrace
