#include "rpc/address.h"

#include "base/host_and_port.h"
#include "base/host_name.h"

namespace millrace {

std::string AdvertisedAddress(const std::string& listen, const std::string& advertise, int port) {
  const std::string& given = advertise.empty() ? listen : advertise;
  const size_t colon = given.rfind(':');
  std::string host = given.substr(0, colon);
  if (advertise.empty() && (host == "0.0.0.0" || host == "[::]" || host == "*")) {
    host = HostName().value_or(host);
  }
  const std::string given_port = given.substr(colon + 1);
  return host + ":" + (std::stoi(given_port) == 0 ? std::to_string(port) : given_port);
}

bool MayConnect(const std::string& address, const RpcTls& tls, bool insecure) {
  return tls.mutual() || insecure || IsLoopback(address);
}

}  // namespace millrace
