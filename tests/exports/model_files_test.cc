#include "exports/model_files.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc32c.h"
#include "base/write_lock.h"
#include "exports/model_reader.h"
#include "exports/model_writer.h"
#include "features/feature_encoder.h"
#include "formats/npy_file.h"
#include "tests/exports/small_models.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// It has a file of each kind.
ExportedModel Example() {
  return RandomModel(DescriptionFor(ModelShape::FACTORIZATION_MACHINE, 2, true));
}

// It has the others.
ExportedModel Softmax() { return RandomModel(DescriptionFor(ModelShape::LINEAR, 3, false)); }

std::vector<std::string> PathsIn(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  return paths;
}

std::string TextOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ModelFiles, AreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  ExportedModel model = Example();
  model.description.set_clock(7);
  model.description.set_rows(uint64_t{1} << 60);
  const Status written = Write(folder / "model", model);
  ASSERT_TRUE(written.ok()) << written;
  const StatusOr<ExportedModel> read = ReadModel(folder / "model");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->weights, model.weights);
  EXPECT_EQ(read->ids, model.ids);
  EXPECT_EQ(read->rows, model.rows);
  EXPECT_EQ(read->moments, model.moments);
  ModelDescription found = read->description;
  EXPECT_EQ(found.format(), kModelFormat);
  EXPECT_NE(found.millrace(), "");
  EXPECT_EQ(found.files_size(), 4);
  found.clear_format();
  found.clear_millrace();
  found.clear_files();
  found.clear_crc32c();
  // (JSON names defaults, so that who reads it need not know them.)
  EXPECT_TRUE(found.features().has_text_buckets());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(found, model.description))
      << found.DebugString();
  EXPECT_FALSE(std::filesystem::exists(folder / "model.partial"));
}

// What a scorer reads its rows by.
TEST(ModelFiles, SayHowCellsAreRead) {
  ModelDescription description = DescriptionFor(ModelShape::LINEAR, 2, false);
  FeatureSpec& spec = *description.mutable_features();
  spec.set_decimal_comma(true);
  spec.add_missing_tokens("unbekannt");
  for (const char* column : {"b", "at.days"}) spec.add_numeric(column);
  spec.mutable_numeric()->DeleteSubrange(1, 1);  // a, b, at.days
  spec.add_booleans("b");
  spec.add_times("at");
  spec.add_categorical("at.hour*c");
  spec.add_bins("a:3");
  FeatureSpec::BinEdges& edges = *spec.add_bin_edges();
  edges.set_column("a");
  for (const double edge : {0.1, 1.5}) edges.add_edge(edge);
  for (const char* column : {"t", "u"}) spec.add_text(column);
  spec.set_text_buckets(16);
  StatusOr<FeatureEncoder> before = FeatureEncoder::Create(spec);
  ASSERT_TRUE(before.ok()) << before.status();
  description.mutable_shape()->set_numeric(3);
  description.mutable_shape()->set_features(static_cast<uint32_t>(before->feature_count()));
  ExportedModel model = RandomModel(description);
  model.moments = Moments(3);

  const TemporaryFolder folder;
  const Status written = Write(folder / "model", model);
  ASSERT_TRUE(written.ok()) << written;
  const StatusOr<ExportedModel> read = ReadModel(folder / "model");
  ASSERT_TRUE(read.ok()) << read.status();
  StatusOr<FeatureEncoder> after = FeatureEncoder::Create(read->description.features());
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_THAT(after->required_columns(), ElementsAre("y", "a", "b", "at", "c", "t", "u"));
  for (const std::vector<std::string_view>& fields :
       {std::vector<std::string_view>{"1.234,5", "Yes", "2024-02-29T17:05", "x", "the cat",
                                      "a dog"},
        {"UNBEKANNT", "off", "1709226300", "", "", "cat cat"}}) {
    Row expected;
    Row found;
    ASSERT_TRUE(before->EncodeFeatures(fields, &expected).ok());
    ASSERT_TRUE(after->EncodeFeatures(fields, &found).ok());
    EXPECT_EQ(std::isnan(found.numeric[0]), fields[0] == "UNBEKANNT");
    EXPECT_EQ(found.numeric[1], expected.numeric[1]);
    EXPECT_EQ(found.numeric[2], expected.numeric[2]);
    EXPECT_EQ(found.index, expected.index);
    EXPECT_EQ(found.value, expected.value);
  }
}

TEST(ModelFiles, ThatAnotherProcessWritesAreLeftToItAndThoseOfAKilledOneAreNot) {
  const TemporaryFolder folder;
  ASSERT_TRUE(std::filesystem::create_directory(folder / "model.partial"));
  std::ofstream(folder / "model.partial/weights.npy") << "half";
  {
    const StatusOr<WriteLock> other = WriteLock::Take(folder / "model.partial", "model");
    ASSERT_TRUE(other.ok()) << other.status();
    const Status written = Write(folder / "model", Example());
    EXPECT_TRUE(absl::IsFailedPrecondition(written)) << written;
    EXPECT_THAT(written.message(), HasSubstr("another process is writing " + (folder / "model")));
    EXPECT_EQ(TextOfFile(folder / "model.partial/weights.npy"), "half");
  }
  const Status written = Write(folder / "model", Example());
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_TRUE(ReadModel(folder / "model").ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "model.partial"));
}

TEST(ModelFiles, BehindALinkAreReplacedWhereItLeads) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Write(folder / "first", Example()).ok());
  std::filesystem::create_directory_symlink("first", folder / "model");
  ASSERT_TRUE(Write(folder / "model/", Softmax()).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "model"));
  const StatusOr<ExportedModel> read = ReadModel(folder / "first");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->description.shape().kind(), ModelShape::LINEAR);
  EXPECT_EQ(PathsIn(folder / "").size(), 2u);

  std::filesystem::create_directory_symlink("nowhere", folder / "other");
  const Status refused = Write(folder / "other", Softmax());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
}

TEST(ModelFiles, OfOneFolderAreReplacedTogether) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Write(folder / "model", Example()).ok());
  const ExportedModel linear = RandomModel(DescriptionFor(ModelShape::LINEAR, 3, false));
  ASSERT_TRUE(Write(folder / "model", linear).ok());
  const StatusOr<ExportedModel> read = ReadModel(folder / "model");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->weights, linear.weights);
  EXPECT_FALSE(std::filesystem::exists(folder / "model/embedding-ids.npy"));
}

TEST(ModelFiles, ReplaceNoFolderOfOtherThings) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "thesis");
  EXPECT_TRUE(Write(folder / "thesis", Example()).ok()) << "it is empty";
  std::filesystem::remove(folder / "thesis/model.json");
  const Status refused = Write(folder / "thesis", Example());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(folder / "thesis"));
  EXPECT_TRUE(std::filesystem::exists(folder / "thesis/weights.npy"));
}

// (Others call a description model.json, too.)
TEST(ModelFiles, ReplaceNoModelBesideWhichThereAreOtherThings) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Write(folder / "model", Example()).ok());
  std::ofstream(folder / "model/thesis.tex") << "my life";
  const Status refused = Write(folder / "model", Example());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("it has thesis.tex"));
  EXPECT_TRUE(std::filesystem::exists(folder / "model/thesis.tex"));
}

TEST(ModelFiles, ReplaceNoFile) {
  const TemporaryFolder folder;
  std::ofstream(folder / "empty").flush();
  EXPECT_FALSE(Write(folder / "empty", Example()).ok());
  EXPECT_TRUE(std::filesystem::is_regular_file(folder / "empty"));
}

TEST(ModelFiles, AreWrittenToAFolderWhoseNameEndsWithASlash) {
  const TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    const Status written = Write(folder / "model/", Example());
    ASSERT_TRUE(written.ok()) << written;
    EXPECT_TRUE(ReadModel(folder / "model").ok());
  }
}

TEST(ModelFiles, AreForTheirOwnerOnlyWhateverTheUmask) {
  for (const ExportedModel& model : {Example(), Softmax()}) {
    const TemporaryFolder folder;
    const mode_t before = umask(0);
    const Status written = Write(folder / "model", model);
    umask(before);
    ASSERT_TRUE(written.ok()) << written;
    using std::filesystem::perms;
    EXPECT_EQ(std::filesystem::status(folder / "model").permissions(), perms::owner_all);
    const std::vector<std::string> paths = PathsIn(folder / "model");
    EXPECT_EQ(paths.size(), 5u);
    for (const std::string& path : paths) {
      EXPECT_EQ(std::filesystem::status(path).permissions(), perms(0600)) << path;
    }
  }
}

// Each file in turn.
void ExpectErrorsThatNameTheFile(const std::function<void(const std::string& path)>& damage) {
  std::set<std::string> damaged;
  for (const ExportedModel& model : {Example(), Softmax()}) {
    const TemporaryFolder folder;
    ASSERT_TRUE(Write(folder / "model", model).ok());
    for (const std::string& path : PathsIn(folder / "model")) {
      ASSERT_TRUE(ReadModel(folder / "model").ok());
      damage(path);
      damaged.insert(std::filesystem::path(path).filename());
      const Status status = ReadModel(folder / "model").status();
      EXPECT_FALSE(status.ok()) << path;
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
      ASSERT_TRUE(Write(folder / "other", model).ok());
      std::filesystem::remove_all(folder / "model");
      std::filesystem::rename(folder / "other", folder / "model");
    }
  }
  EXPECT_THAT(damaged, ::testing::ElementsAreArray(
                           std::set<std::string>(kAllFiles.begin(), kAllFiles.end())));
}

TEST(ModelFiles, ThatAreMissingAreErrorsThatNameThem) {
  ExpectErrorsThatNameTheFile([](const std::string& path) { std::filesystem::remove(path); });
}

TEST(ModelFiles, ThatAreCutShortAreErrorsThatNameThem) {
  ExpectErrorsThatNameTheFile([](const std::string& path) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  });
}

TEST(ModelFiles, WithOneOtherByteAreErrorsThatNameThem) {
  ExpectErrorsThatNameTheFile([](const std::string& path) {
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path)) / 2);
    stream.put('\x07');
  });
}

// Still JSON, and still what a description may say.
TEST(ModelFiles, WithAnotherDigitInTheDescriptionAreAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Write(folder / "model", Example()).ok());
  const std::string path = folder / "model/model.json";
  const std::string text = TextOfFile(path);
  int changed = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '2' || text[i] > '9') continue;
    std::string other = text;
    --other[i];
    std::ofstream(path) << other;
    const Status status = ReadModel(folder / "model").status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << text.substr(text.rfind('\n', i), 60);
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    ++changed;
  }
  EXPECT_GT(changed, 30);
  std::ofstream(path) << text;
  EXPECT_TRUE(ReadModel(folder / "model").ok());
}

TEST(ModelFiles, OfAnotherFormatAreAnErrorThatNamesBoth) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Write(folder / "model", Example()).ok());
  std::string text = TextOfFile(folder / "model/model.json");
  const std::string before = "\"format\": 2";
  ASSERT_NE(text.find(before), std::string::npos);
  text.replace(text.find(before), before.size(), "\"format\": 9, \"unheard\": 1");
  std::ofstream(folder / "model/model.json") << text;
  const Status status = ReadModel(folder / "model").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("format 9, but this program reads formats up to 2"));
}

TEST(ModelFiles, ThatAreNotThereAreNotFound) {
  const TemporaryFolder folder;
  const Status status = ReadModel(folder / "model").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no model in " + folder / "model"));
}

TEST(ModelFiles, InWhosePlaceAPipeIsAreRefusedWithoutWaitingForItsWriter) {
  for (const char* file : {kDescriptionFile, kWeightsFile}) {
    const TemporaryFolder folder;
    ASSERT_TRUE(Write(folder / "model", Example()).ok());
    const std::string path = folder / "model/" + file;
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), S_IRUSR | S_IWUSR), 0);
    const Status status = ReadModel(folder / "model").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": it is a pipe, and no regular"));
  }
}

// Reads a model whose description somebody has edited, and given its checksum.
Status ReadEdited(const std::string& before, const std::string& after,
                  const std::string& version = "") {
  const TemporaryFolder folder;
  EXPECT_TRUE(Write(folder / "model", Example()).ok());
  const std::string path = folder / "model/model.json";
  std::string text = TextOfFile(path);
  const auto replace = [&text](const std::string& old, const std::string& now) {
    ASSERT_NE(text.find(old), std::string::npos) << old;
    text.replace(text.find(old), old.size(), now);
  };
  replace(before, after);
  if (!version.empty()) replace("\"millrace\": \"", "\"millrace\": \"" + version);
  text.resize(text.rfind("\"crc32c\":"));
  text += "\"crc32c\": " + std::to_string(Crc32c(text)) + "}";
  std::ofstream(path) << text;
  return ReadModel(folder / "model").status();
}

constexpr char kKind[] = "\"kind\": \"FACTORIZATION_MACHINE\"";
constexpr char kLater[] = "9.";  // before the version that wrote it

TEST(ModelFiles, WithAValueThatIsNotKnownAreRefusedWithThoseThatAre) {
  for (const char* version : {"", kLater}) {
    const Status status = ReadEdited(kKind, R"("kind": "NETWORKX")", version);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("/model.json: its member shape.kind is 'NETWORKX', which is no value that "
                  "this program knows: LINEAR, FACTORIZATION_MACHINE, DEEP_FM, NETWORK. "));
  }
  EXPECT_THAT(std::string(ReadEdited(kKind, "\"kind\": 7").message()),
              HasSubstr("shape.kind is '7', which"));
  EXPECT_TRUE(ReadEdited(kKind, "\"kind\": 1").ok());
  EXPECT_TRUE(ReadEdited("\"row_width\"", "\"rowWidth\"").ok());  // as protobuf's JSON may have it
}

TEST(ModelFiles, WithAMemberThatIsNotKnownAreRefusedUnlessALaterVersionWroteThem) {
  const auto why = [](const Status& status) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(
      why(ReadEdited("\"scaled\": ", "\"scalled\": ")),
      HasSubstr("it has a member 'scalled' in shape that this program does not know; the nearest "
                "that it knows is scaled. Somebody has edited the file"));
  EXPECT_THAT(why(ReadEdited("\"job\": ", "\"\u00e9\": {\"a\": [1]}, \"job\": ")),
              HasSubstr("it knows format, millrace, job, "));
  EXPECT_TRUE(ReadEdited("\"job\": ", "\"colour\": {\"a\": [1]}, \"job\": ", kLater).ok());
  const std::string step = "\"training\": {\"optimizer\": {\"kind\": \"NEWTON\"}}, \"job\": ";
  EXPECT_TRUE(ReadEdited("\"job\": ", step, kLater).ok());
  EXPECT_THAT(why(ReadEdited("\"job\": ", step)), HasSubstr("training"));
}

// Whoever writes a description can give it a checksum, too.
void ExpectRefused(const std::function<void(const std::string& folder, ModelDescription&)>& change,
                   const std::string& file, const std::string& why) {
  const TemporaryFolder parent;
  const std::string folder = parent / "model";
  ASSERT_TRUE(Write(folder, Example()).ok());
  ModelDescription description = Example().description;
  change(folder, description);
  ASSERT_TRUE(SealModel(folder, description).ok());
  const Status status = ReadModel(folder).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder + "/" + file));
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(ModelFiles, WithWeightsThatAreNoNumbersAreRefused) {
  ExpectRefused(
      [](const std::string& folder, ModelDescription&) {
        std::vector<float> weights = Example().weights;
        weights[3] = std::numeric_limits<float>::quiet_NaN();
        ASSERT_TRUE(WriteNpy(folder + "/weights.npy", weights, weights.size(), std::nullopt).ok());
      },
      kWeightsFile, "a value is infinite or no number");
}

TEST(ModelFiles, OfAnotherShapeThanTheirFeaturesAreRefused) {
  ExpectRefused(
      [](const std::string& folder, ModelDescription&) {
        const std::vector<float> weights(12);
        ASSERT_TRUE(WriteNpy(folder + "/weights.npy", weights, 12, std::nullopt).ok());
      },
      kWeightsFile, "12 rows instead of 13");
  ExpectRefused(
      [](const std::string& folder, ModelDescription&) {
        ASSERT_TRUE(WriteNpy(folder + "/moments.npy", std::vector<double>(9), 3, 3).ok());
      },
      kMomentsFile, "another shape");
  ExpectRefused(
      [](const std::string&, ModelDescription& description) {
        description.mutable_features()->set_categorical_buckets(9);
      },
      kDescriptionFile, "are not those of the shape");
  ExpectRefused([](const std::string&,
                   ModelDescription& description) { description.mutable_shape()->set_factors(4); },
                kDescriptionFile, "the width of embedding rows");
}

TEST(ModelFiles, WithMomentsOfNoNumbersAreRefused) {
  ExpectRefused(
      [](const std::string& folder, ModelDescription&) {
        const std::vector<double> moments = {1, 1, 0, 0, -4, 1};
        ASSERT_TRUE(WriteNpy(folder + "/moments.npy", moments, 3, 2).ok());
      },
      kMomentsFile, "moments of no numbers");
}

TEST(ModelFiles, WhoseIdsDoNotAscendAreRefused) {
  ExpectRefused(
      [](const std::string& folder, ModelDescription&) {
        std::vector<EmbeddingId> ids = Example().ids;
        std::swap(ids[2], ids[3]);
        StatusOr<NpyWriter> file =
            NpyWriter::Create(folder + "/embedding-ids.npy", kNpyUint64, std::nullopt);
        ASSERT_TRUE(file.ok() && file->Append(std::span<const EmbeddingId>(ids)).ok());
        ASSERT_TRUE(file->Finish(ids.size()).ok());
      },
      kIdsFile, "not ascending");
}

TEST(ModelFiles, AreNotWrittenOfWhatIsNoModel) {
  const TemporaryFolder folder;
  const auto refused = [&](const ExportedModel& model, const std::string& why) {
    const Status status = Write(folder / "model", model);
    EXPECT_FALSE(status.ok()) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << why;
  };
  ExportedModel model = Example();
  model.weights[4] = std::numeric_limits<float>::infinity();
  refused(model, "a weight is infinite");
  model = Example();
  model.rows[4] = std::numeric_limits<float>::quiet_NaN();
  refused(model, "a value of an embedding row is infinite");
  model = Example();
  std::swap(model.ids[0], model.ids[1]);
  refused(model, "not in the order of their ids");
  model = Example();
  model.weights.pop_back();
  refused(model, "12 weights instead of 13");
  model = Example();
  model.moments = Moments(1);
  refused(model, "the moments");
  model = Example();
  model.description.mutable_shape()->set_ids(1);
  refused(model, "not those of the shape");
}

TEST(ModelFiles, ThatCannotBeWrittenAreErrorsThatNameThem) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "no folder";
  const Status status = Write(folder / "file/model", Example());
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "file/model"));
}

}  // namespace
}  // namespace millrace
