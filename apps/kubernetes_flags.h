// The flags of MasterApp for a Kubernetes cluster.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcher/kubernetes/kubernetes_launcher.h"

namespace millrace {

struct KubernetesFlags {
  std::string image;
  std::string pod_template;  // the path of a file, in which {group} stands for each group's name
  ApiServerOptions api;
};

void AddKubernetesFlags(CLI::App& app, KubernetesFlags& flags);
// Whether one of them is given, which says something only to this launcher.
bool HasKubernetesFlags(const CLI::App& app);

// Without the job, its settings and what is to be called. NotFound, FailedPrecondition: the
// template of one of the groups cannot be read.
StatusOr<KubernetesLauncherOptions> ToLauncherOptions(const KubernetesFlags& flags,
                                                      const std::vector<std::string>& groups);

}  // namespace millrace
