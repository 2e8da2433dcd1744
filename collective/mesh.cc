#include "collective/mesh.h"

#include <arpa/inet.h>
#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <exception>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace millrace {
namespace {

namespace tcp = gloo::transport::tcp;

// Gloo waits for a connection five times as long as its timeout says.
constexpr int kGlooConnectFactor = 5;
// The same in all worlds, so that a stranger is heard.
constexpr uint64_t kGreetingTag = 0;
constexpr std::chrono::milliseconds kTick(100);

void IgnoreBrokenPipes() {
  struct sigaction now = {};
  if (sigaction(SIGPIPE, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
  (void)std::signal(SIGPIPE, SIG_IGN);
}

// Whether this machine has the host's address. Gloo would find out, too, but says less and does not
// free what it has looked up.
Status CheckHost(const std::string& host) {
  const std::string what = absl::StrCat("cannot listen at ", host, " for the other members: ");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::FailedPreconditionError(what + gai_strerror(error));
  }
  int error = 0;
  bool is_here = false;
  for (const addrinfo* each = found; each != nullptr && !is_here; each = each->ai_next) {
    const int probe = socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    is_here = probe >= 0 && bind(probe, each->ai_addr, each->ai_addrlen) == 0;
    if (!is_here) error = errno;
    if (probe >= 0) (void)close(probe);
  }
  freeaddrinfo(found);
  if (is_here) return absl::OkStatus();
  return absl::FailedPreconditionError(what + std::generic_category().message(error) +
                                       ". Give an address of this machine (MeshOptions::host)");
}

MeshAddress AddressOf(const sockaddr_storage& storage) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  MeshAddress address;
  const void* number = nullptr;
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    number = &v4.sin_addr;
    address.port = ntohs(v4.sin_port);
  } else {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    number = &v6.sin6_addr;
    address.port = ntohs(v6.sin6_port);
  }
  if (inet_ntop(storage.ss_family, number, text.data(), text.size()) != nullptr) {
    address.host = text.data();
  }
  return address;
}

// None: the host is no address.
std::optional<sockaddr_storage> StorageOf(const MeshAddress& address) {
  sockaddr_storage storage = {};
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  if (inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    return storage;
  }
  storage = {};
  if (inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) != 1) return std::nullopt;
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  return storage;
}

}  // namespace

class Mesh::Connections final : public gloo::Context {
 public:
  Connections(const MeshOptions& options, int position, int members)
      : gloo::Context(position, members) {
    tcp::attr attributes(options.host.c_str());
    device_ = tcp::CreateDevice(attributes);
    transportContext_ = device_->createContext(position, members);
    transportContext_->setTimeout(options.connect_timeout / kGlooConnectFactor);
  }

  MeshAddress ListenFor(int member) {
    const auto& pair = transportContext_->createPair(member);
    return AddressOf(tcp::Address(pair->address().bytes()).getSockaddr());
  }

  void ConnectTo(int member, const sockaddr_storage& address) {
    getPair(member)->connect(tcp::Address(address).bytes());
  }
};

// Gloo waits until a timeout, which breaks the connections, or until another thread interrupts it.
class Mesh::Ticker {
 public:
  // The buffer that is awaited from now on; null: none. It lives until the next call.
  void Await(gloo::transport::UnboundBuffer* buffer) {
    const std::lock_guard lock(mutex_);
    awaited_ = buffer;
  }

 private:
  void Run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, stop, kTick, [&stop] { return stop.stop_requested(); })) {
      if (awaited_ == nullptr) continue;
      awaited_->abortWaitRecv();
      awaited_->abortWaitSend();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  gloo::transport::UnboundBuffer* awaited_ = nullptr;
  // Last: it uses the others.
  std::jthread thread_{[this](const std::stop_token& stop) { Run(stop); }};
};

struct Transfers::Begun {
  uint32_t member = 0;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
};

// ---- Mesh ----

Mesh::Mesh(const MeshOptions& options, uint32_t position, uint32_t size)
    : options_(options), position_(position), size_(size), addresses_(size) {}

Mesh::~Mesh() = default;

StatusOr<std::unique_ptr<Mesh>> Mesh::Listen(const MeshOptions& options, uint32_t position,
                                             uint32_t size) {
  MILLRACE_CHECK(position < size);
  std::unique_ptr<Mesh> mesh(new Mesh(options, position, size));
  if (size == 1) return mesh;
  IgnoreBrokenPipes();
  MILLRACE_RETURN_IF_ERROR(CheckHost(options.host));
  try {
    mesh->connections_ =
        std::make_unique<Connections>(options, static_cast<int>(position), static_cast<int>(size));
    for (uint32_t member = 0; member < size; ++member) {
      if (member == position) continue;
      mesh->addresses_[member] = mesh->connections_->ListenFor(static_cast<int>(member));
    }
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen at ", options.host, " for the other members: ", error.what()));
  }
  if (options.on_wait) mesh->ticker_ = std::make_unique<Ticker>();
  return mesh;
}

Status Mesh::Connect(std::span<const MeshAddress> others, uint64_t world) {
  MILLRACE_CHECK(others.size() == size_);
  MILLRACE_RETURN_IF_ERROR(broken_);
  for (uint32_t member = 0; member < size_; ++member) {
    if (member == position_) continue;
    const MeshAddress& address = others[member];
    const std::string name = absl::StrCat("member ", member, " at ", address.host, ", port ",
                                          static_cast<uint32_t>(address.port));
    const std::optional<sockaddr_storage> storage = StorageOf(address);
    if (!storage) {
      Break(absl::UnavailableError(name + ": the host is not an IP address"));
      return broken_;
    }
    try {
      connections_->ConnectTo(static_cast<int>(member), *storage);
    } catch (const std::exception& error) {
      Break(absl::UnavailableError(absl::StrCat("cannot connect to ", name, ": ", error.what())));
      return broken_;
    }
  }
  // Who has connected is perhaps a member of another world, whose port was given to this one since.
  struct Greeting {
    uint64_t world;
    uint64_t member;
  };
  const Greeting own = {world, position_};
  std::vector<Greeting> greetings(size_, own);
  Transfers transfers(*this);
  for (uint32_t member = 0; member < size_; ++member) {
    if (member == position_) continue;
    transfers.Receive(member, kGreetingTag,
                      std::as_writable_bytes(std::span(&greetings[member], 1)));
    transfers.Send(member, kGreetingTag, std::as_bytes(std::span(&own, 1)));
  }
  MILLRACE_RETURN_IF_ERROR(transfers.WaitReceived());
  MILLRACE_RETURN_IF_ERROR(transfers.WaitSent());
  for (uint32_t member = 0; member < size_; ++member) {
    if (greetings[member].world == world && greetings[member].member == member) continue;
    Break(absl::UnavailableError(absl::StrCat("the process that answered in the place of member ",
                                              member,
                                              " is not that member of this world: join again")));
  }
  return broken_;
}

void Mesh::Break(const Status& why) {
  if (!broken_.ok()) return;
  broken_ = why;
  if (connections_ == nullptr) return;
  try {
    connections_->closeConnections();
  } catch (const std::exception& error) {
    broken_ = absl::UnavailableError(
        absl::StrCat(why.message(), "; closing the connections failed, too: ", error.what()));
  }
}

// ---- Transfers ----

Transfers::Transfers(Mesh& mesh)
    : mesh_(mesh), deadline_(std::chrono::steady_clock::now() + mesh.options_.timeout) {}

Transfers::~Transfers() {
  // Or the others' bytes would be written to memory that is the caller's again.
  if (!received_.empty() || !sent_.empty()) {
    mesh_.Break(absl::UnavailableError("this member gave up an exchange that had begun"));
  }
}

std::optional<std::chrono::milliseconds> Transfers::Left() const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline_ - std::chrono::steady_clock::now());
  if (left.count() <= 0) return std::nullopt;
  return left;
}

Status Transfers::Fail(uint32_t member, const std::string& what) {
  mesh_.Break(absl::UnavailableError(absl::StrCat("the exchange with member ", member, " (of 0 to ",
                                                  mesh_.size_ - 1, ") has failed: ", what)));
  return mesh_.broken_;
}

void Transfers::Receive(uint32_t from, uint64_t tag, std::span<std::byte> bytes) {
  if (bytes.empty() || !mesh_.broken_.ok()) return;
  try {
    auto buffer = mesh_.connections_->createUnboundBuffer(bytes.data(), bytes.size());
    buffer->recv(static_cast<int>(from), tag);
    received_.push_back({from, std::move(buffer)});
  } catch (const std::exception& error) {
    (void)Fail(from, error.what());
  }
}

void Transfers::Send(uint32_t to, uint64_t tag, std::span<const std::byte> bytes) {
  if (bytes.empty() || !mesh_.broken_.ok()) return;
  try {
    // Gloo only reads what is sent.
    auto* const data = const_cast<std::byte*>(bytes.data());
    auto buffer = mesh_.connections_->createUnboundBuffer(data, bytes.size());
    buffer->send(static_cast<int>(to), tag);
    sent_.push_back({to, std::move(buffer)});
  } catch (const std::exception& error) {
    (void)Fail(to, error.what());
  }
}

std::string Transfers::TooLate() const {
  return absl::StrCat("no answer within ", mesh_.options_.timeout.count(),
                      " ms (MeshOptions::timeout)");
}

Status Transfers::Wait(const Begun& begun, bool is_receipt) {
  gloo::transport::UnboundBuffer& buffer = *begun.buffer;
  while (true) {
    const auto left = Left();
    if (!left) return Fail(begun.member, TooLate());
    bool is_done = false;
    std::string error;
    if (mesh_.ticker_) mesh_.ticker_->Await(&buffer);
    try {
      is_done = is_receipt ? buffer.waitRecv(*left) : buffer.waitSend(*left);
    } catch (const std::exception& thrown) {
      error = thrown.what();
      if (error.empty()) error = "Gloo does not say why";
    }
    if (mesh_.ticker_) mesh_.ticker_->Await(nullptr);
    if (!error.empty()) return Fail(begun.member, error);
    if (is_done) return absl::OkStatus();
    if (!mesh_.options_.on_wait) continue;
    if (const Status status = mesh_.options_.on_wait(); !status.ok()) {
      mesh_.Break(status);
      return mesh_.broken_;
    }
  }
}

Status Transfers::WaitReceived() {
  MILLRACE_RETURN_IF_ERROR(mesh_.broken_);
  for (const Begun& begun : received_) MILLRACE_RETURN_IF_ERROR(Wait(begun, /*is_receipt=*/true));
  received_.clear();
  return absl::OkStatus();
}

Status Transfers::WaitSent() {
  MILLRACE_RETURN_IF_ERROR(mesh_.broken_);
  for (const Begun& begun : sent_) MILLRACE_RETURN_IF_ERROR(Wait(begun, /*is_receipt=*/false));
  sent_.clear();
  return absl::OkStatus();
}

}  // namespace millrace
