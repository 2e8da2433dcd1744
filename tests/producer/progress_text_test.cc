#include "producer/progress_text.h"

#include <gtest/gtest.h>

#include "base/grouped_number.h"

namespace millrace {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ProgressRates::Time kStart{hours(1000)};

ProducerProgress At(uint64_t bytes, uint64_t rows) {
  ProducerProgress progress;
  progress.set_bytes_read(bytes);
  progress.set_bytes_total(2'000'000);
  progress.set_rows_sent(rows);
  progress.set_epoch_of_stream(1);
  progress.set_epochs_of_stream(1);
  return progress;
}

TEST(ProgressText, WritesNumbersForPeople) {
  EXPECT_EQ(GroupedNumber(0), "0");
  EXPECT_EQ(GroupedNumber(999), "999");
  EXPECT_EQ(GroupedNumber(1000), "1,000");
  EXPECT_EQ(GroupedNumber(1234567), "1,234,567");
  EXPECT_EQ(Bytes(12), "12 B");
  EXPECT_EQ(Bytes(12'340'000), "12.3 MB");
  EXPECT_EQ(Duration(seconds(7)), "0:07");
  EXPECT_EQ(LongDuration(seconds(2 * 86'400 - 1)), "47:59:59");
  EXPECT_EQ(LongDuration(seconds(2 * 86'400)), "2 days");
  EXPECT_EQ(LongDuration(seconds(int64_t{2} * 365 * 86'400)), "2 years");
  EXPECT_EQ(Duration(seconds(754)), "12:34");
  EXPECT_EQ(Duration(seconds(3723)), "1:02:03");
}

TEST(ProgressText, RatesAreThoseOfTheLastSeconds) {
  ProgressRates rates;
  EXPECT_EQ(rates.rows_per_second(), 0);
  // Slow at first, then ten times as fast.
  uint64_t rows = 0;
  for (int i = 0; i <= 200; ++i) {
    rows += i < 100 ? 10 : 100;
    rates.Add(kStart + milliseconds(100 * i), At(100 * rows, rows));
  }
  EXPECT_DOUBLE_EQ(*rates.rows_per_second(), 1000);
  const uint64_t left = 2'000'000 - 100 * rows;
  EXPECT_EQ(rates.time_left()->count(), static_cast<int64_t>((left + 99'999) / 100'000));
}

TEST(ProgressText, RowsOfAnEarlierRunThatArePassedOverAreNoSpeed) {
  ProgressRates rates;
  rates.Add(kStart, At(0, 90'000), true);
  EXPECT_EQ(ProgressLine(At(0, 90'000), rates),
            "0.0 % of 2.0 MB, 90,000 rows, skipping rows that Kafka has");
  rates.Add(kStart + seconds(1), At(1'800'000, 90'000), true);
  EXPECT_EQ(rates.time_left(), std::nullopt);
  rates.Add(kStart + seconds(2), At(1'820'000, 91'000));
  EXPECT_EQ(rates.rows_per_second(), 1'000);
  EXPECT_EQ(rates.time_left(), seconds(9));
}

// 100 rows and 10,000 bytes, ten times a second, from `begin` for `seconds`; returns the last.
ProducerProgress Go(ProgressRates& rates, seconds begin, seconds time, uint64_t rows) {
  for (int i = 0; i <= 10 * time.count(); ++i) {
    rates.Add(kStart + begin + milliseconds(100 * i), At(100 * rows, rows));
    rows += 100;
  }
  return At(100 * (rows - 100), rows - 100);
}

TEST(ProgressText, AnOutageCountsInNoSpeed) {
  ProgressRates rates;
  const ProducerProgress before = Go(rates, seconds(0), seconds(5), 0);
  EXPECT_EQ(ProgressLine(before, rates), "25.0 % of 2.0 MB, 5,000 rows, 1,000 rows/s, 0:15 left");
  // Nobody adds while no record is confirmed, as CsvProducer does.
  ProducerProgress after = Go(rates, seconds(60), seconds(0), 5'100);
  EXPECT_EQ(ProgressLine(after, rates), "25.5 % of 2.0 MB, 5,100 rows");
  after = Go(rates, seconds(61), seconds(0), 6'100);
  EXPECT_EQ(ProgressLine(after, rates), "30.5 % of 2.0 MB, 6,100 rows, 1,000 rows/s, 0:14 left");
}

TEST(ProgressText, NorDoesItWhereThePauseIsSeen) {
  ProgressRates rates;
  Go(rates, seconds(0), seconds(5), 0);
  for (int i = 1; i <= 30; ++i) {
    rates.Add(kStart + milliseconds(5'000 + 100 * i), At(500'000, 5'000));
    if (i > 20) {
      EXPECT_EQ(rates.time_left(), std::nullopt) << i;
    }
  }
  EXPECT_LT(*rates.rows_per_second(), 300) << "it stands still";
  Go(rates, seconds(9), seconds(1), 5'100);
  EXPECT_EQ(rates.rows_per_second(), 1'000);
  EXPECT_EQ(rates.time_left(), seconds(14));
}

TEST(ProgressText, MovesThatAlwaysTakeLongAreNoOutage) {
  ProgressRates rates;
  for (int i = 0; i <= 10; ++i) {  // a move in three seconds
    rates.Add(kStart + seconds(3 * i), At(30'000 * i, 300 * i));
    EXPECT_EQ(rates.rows_per_second(), i == 0 ? 0 : 100) << i;
  }
  EXPECT_EQ(rates.time_left(), seconds(170));
}

TEST(ProgressText, ALineTellsWhatIsKnown) {
  ProgressRates rates;
  rates.Add(kStart, At(0, 0));
  rates.Add(kStart + seconds(2), At(500'000, 10'000));
  ProducerProgress progress = At(500'000, 10'000);
  EXPECT_EQ(ProgressLine(progress, rates),
            "25.0 % of 2.0 MB, 10,000 rows, 5,000 rows/s, 0:06 left");
  progress.set_rows_rejected(3);
  progress.set_epochs_of_stream(4);
  EXPECT_EQ(ProgressLine(progress, rates),
            "25.0 % of 2.0 MB, epoch 1 of 4, 10,000 rows, 5,000 rows/s, 3 rejected, 0:06 left");
  progress = At(500'000, 10'000);
  progress.clear_bytes_total();
  ProgressRates unknown;
  EXPECT_EQ(ProgressLine(progress, unknown), "500.0 kB, 10,000 rows, 0 rows/s");
}

TEST(ProgressText, ABarTakesTheRoomThatTheFiguresLeave) {
  const ProgressRates rates;
  const ProducerProgress progress = At(500'000, 10'000);
  EXPECT_EQ(ProgressBar(progress, rates, 200),
            "[#######.......................] 25.0 %  10,000 rows  0 rows/s");
  EXPECT_EQ(ProgressBar(progress, rates, 42), "[##........] 25.0 %  10,000 rows  0 rows/s");
  EXPECT_EQ(ProgressBar(progress, rates, 39), "25.0 %  10,000 rows  0 rows/s");
  for (size_t columns = 1; columns < 100; ++columns) {
    EXPECT_LE(ProgressBar(progress, rates, columns).size(), columns);
  }
}

}  // namespace
}  // namespace millrace
