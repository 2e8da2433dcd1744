#include "predictor/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/exports/small_models.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

ExportedModel Example(unsigned seed) {
  return RandomModel(DescriptionFor(ModelShape::LINEAR, 2, false), seed);
}

void Break(const std::string& path) { std::ofstream(path, std::ios::app) << "x"; }

TEST(ModelFolder, WithoutAModelIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  const auto opened = ModelFolder::Open(folder / "nothing");
  EXPECT_TRUE(absl::IsNotFound(opened.status()));
  EXPECT_THAT(std::string(opened.status().message()),
              HasSubstr("no model in " + (folder / "nothing")));
}

TEST(ModelFolder, IsReadAgainWhenAnotherModelIsThere) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Write(folder / "model", Example(1)).ok());
  const auto opened = ModelFolder::Open(folder / "model");
  ASSERT_TRUE(opened.ok()) << opened.status();
  ModelFolder& model = **opened;
  const std::shared_ptr<const ModelScorer> first = model.model();
  EXPECT_EQ(first->model().weights, Example(1).weights);
  EXPECT_FALSE(*model.Refresh());
  ASSERT_TRUE(Write(folder / "model", Example(2)).ok());
  EXPECT_TRUE(*model.Refresh());
  EXPECT_EQ(model.model()->model().weights, Example(2).weights);
  // Whoever has the first one goes on with it.
  EXPECT_EQ(first->model().weights, Example(1).weights);
  EXPECT_FALSE(*model.Refresh());
}

TEST(ModelFolder, IsReadAgainWhenTheOtherFilesHaveFollowed) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Write(folder / "model", Example(1)).ok());
  ASSERT_TRUE(Write(folder / "next", Example(2)).ok());
  const auto opened = ModelFolder::Open(folder / "model");
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto copy = [&](const char* file) {
    std::filesystem::copy_file(folder / "next/" + file, folder / "model/" + file,
                               std::filesystem::copy_options::overwrite_existing);
  };
  copy("model.json");
  EXPECT_FALSE((*opened)->Refresh().ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder / "next")) {
    if (entry.path().filename() != "model.json") copy(entry.path().filename().c_str());
  }
  EXPECT_TRUE(*(*opened)->Refresh());
  EXPECT_EQ((*opened)->model()->model().weights, Example(2).weights);
}

TEST(ModelFolder, KeepsTheLastModelWhileTheNewOneIsDamagedOrGone) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Write(folder / "model", Example(1)).ok());
  const auto opened = ModelFolder::Open(folder / "model");
  ASSERT_TRUE(opened.ok()) << opened.status();
  ModelFolder& model = **opened;
  std::filesystem::remove_all(folder / "model");
  EXPECT_TRUE(absl::IsNotFound(model.Refresh().status()));
  EXPECT_THAT(std::string(model.newer().message()), HasSubstr("no model in " + (folder / "model")));
  EXPECT_EQ(model.model()->model().weights, Example(1).weights);

  ASSERT_TRUE(Write(folder / "model", Example(2)).ok());
  Break(folder / "model/weights.npy");
  EXPECT_THAT(std::string(model.Refresh().status().message()), HasSubstr("weights.npy"));
  EXPECT_THAT(std::string(model.newer().message()), HasSubstr("weights.npy"));
  EXPECT_FALSE(model.Refresh().ok());
  EXPECT_EQ(model.model()->model().weights, Example(1).weights);

  ASSERT_TRUE(Write(folder / "model", Example(3)).ok());
  EXPECT_TRUE(*model.Refresh());
  EXPECT_TRUE(model.newer().ok());
  EXPECT_EQ(model.model()->model().weights, Example(3).weights);
}

}  // namespace
}  // namespace millrace
