#include "apps/topology_file.h"

#include <google/protobuf/text_format.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "apps/text_error.h"
#include "apps/topology.h"
#include "base/whole_file.h"

namespace millrace {
namespace {

constexpr size_t kMostTopologyBytes = 4 << 20;

}  // namespace

StatusOr<Topology> ParseTopology(const std::string& text, const std::string& name) {
  FirstTextError error(name);
  google::protobuf::TextFormat::ParseInfoTree places;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&places);
  Topology topology;
  if (!parser.ParseFromString(text, &topology)) return absl::InvalidArgumentError(error.text());
  const std::optional<TopologyFault> fault = FaultOf(topology);
  if (!fault) return topology;
  google::protobuf::TextFormat::ParseLocation place(0, 0);
  if (!fault->list.empty()) {
    place = places.GetLocation(Topology::descriptor()->FindFieldByName(fault->list), fault->index);
  }
  return absl::InvalidArgumentError(PlaceInText(name, place.line, place.column) + fault->text);
}

StatusOr<Topology> ReadTopology(const std::string& path) {
  const StatusOr<std::string> text = ReadWholeFile(path, kMostTopologyBytes);
  if (text.ok()) return ParseTopology(*text, path);
  return Status(text.status().code(), absl::StrCat(path, ": ", text.status().message()));
}

}  // namespace millrace
