#include "topics/message_codec.h"

#include <gtest/gtest.h>

#include <string>

#include "messages/records.pb.h"

namespace millrace {
namespace {

TEST(CodecTest, ParsingAWholeMessageNamesWhatItIsNot) {
  Gradient message;
  const Status status = ParseMessage("\xff\xff\xff", message);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "not a millrace.Gradient");
}

TEST(MessageCodecTest, AMessageThatIsTooLargeIsAnErrorAndNoEmptyMessage) {
  DeadLetter message;
  message.set_value(std::string(100, 'x'));
  const size_t size = message.ByteSizeLong();
  const StatusOr<std::string> fits = SerializeMessage(message, size);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(*fits, message.SerializeAsString());
  const Status status = SerializeMessage(message, size - 1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(status.message(), "a millrace.DeadLetter of " + std::to_string(size) + " bytes, but " +
                                  std::to_string(size - 1) + " is the limit");
}

}  // namespace
}  // namespace millrace
