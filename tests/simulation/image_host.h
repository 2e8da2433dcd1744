// Follows a shard by its checkpoints as the simulator runs it: production code takes what is read;
// the process around it is slow, dies, and begins again.
#pragma once

#include <memory>

#include "tasks/checkpoint_assembler.h"
#include "tasks/shard_image.h"
#include "tests/simulation/world.h"

namespace millrace::simulation {

class ImageHost {
 public:
  // Draws from a source of its own: whether somebody looks changes nothing in a run.
  ImageHost(World& world, ShardId shard, uint64_t seed);
  virtual ~ImageHost() = default;
  ImageHost(const ImageHost&) = delete;
  ImageHost& operator=(const ImageHost&) = delete;

  // Takes some records, or none.
  void Turn();
  // Takes all that there are.
  void TakeAll();
  // From the first checkpoint on.
  void BeginAgain();
  const ShardImage::View& view() const { return image_->view(); }

 protected:
  // The seam: what a planted error may take otherwise.
  virtual Status Take(ShardImage& image, CheckpointAssembler::Part part);

 private:
  // False when there is none.
  bool TakeOne();
  void Show();

  World& world_;
  ShardId shard_;
  Random random_;
  CheckpointAssembler assembler_;
  std::unique_ptr<ShardImage> image_;
  Offset next_ = 0;
};

}  // namespace millrace::simulation
