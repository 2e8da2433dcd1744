#include "apps/kubernetes_flags.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/whole_file.h"

namespace millrace {
namespace {

constexpr char kKubernetesGroup[] = "Kubernetes";
constexpr size_t kMostTemplateBytes = size_t{1} << 20;
constexpr const char* kKubernetesFlags[] = {"--image", "--pod-template", "--kubernetes-namespace",
                                            "--kubernetes-api", "--kubernetes-account"};

}  // namespace

void AddKubernetesFlags(CLI::App& app, KubernetesFlags& flags) {
  app.add_option("--image", flags.image,
                 "Image of the pods, which has the programs where MasterApp's own has them\n"
                 "[that of --pod-template]")
      ->type_name("IMAGE")
      ->group(kKubernetesGroup);
  app.add_option(
         "--pod-template", flags.pod_template,
         "A pod as JSON with what all pods of a group have: resources, volumes. In the path,\n"
         "{group} is server, worker, producer or end; in the file, {group}, {rank} and\n"
         "{process} (worker-2) are replaced [none]")
      ->type_name("FILE")
      ->group(kKubernetesGroup);
  app.add_option("--kubernetes-namespace", flags.api.kube_namespace,
                 "Namespace of the pods [that of the service account]")
      ->type_name("NAME")
      ->group(kKubernetesGroup);
  app.add_option(
         "--kubernetes-api", flags.api.url,
         "Address of the API server, such as http://127.0.0.1:8001 of kubectl proxy [that of\n"
         "the cluster in which MasterApp runs]")
      ->type_name("URL")
      ->group(kKubernetesGroup);
  app.add_option("--kubernetes-account", flags.api.account_folder,
                 "Folder with token, ca.crt and namespace of a service account\n"
                 "[/var/run/secrets/kubernetes.io/serviceaccount]")
      ->type_name("FOLDER")
      ->group(kKubernetesGroup);
}

bool HasKubernetesFlags(const CLI::App& app) {
  return std::ranges::any_of(kKubernetesFlags,
                             [&](const char* flag) { return app.count(flag) > 0; });
}

StatusOr<KubernetesLauncherOptions> ToLauncherOptions(const KubernetesFlags& flags,
                                                      const std::vector<std::string>& groups) {
  KubernetesLauncherOptions options;
  options.api = flags.api;
  options.pods.image = flags.image;
  if (flags.pod_template.empty()) return options;
  for (const std::string& group : groups) {
    const std::string path = absl::StrReplaceAll(flags.pod_template, {{"{group}", group}});
    StatusOr<std::string> text = ReadWholeFile(path, kMostTemplateBytes);
    if (!text.ok()) {
      return absl::NotFoundError(
          absl::StrCat("--pod-template ", path, ": ", text.status().message()));
    }
    options.pods.templates[group] = *std::move(text);
  }
  return options;
}

}  // namespace millrace
