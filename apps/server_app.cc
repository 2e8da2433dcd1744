// ServerApp: hosts the server shards of a job, with the handlers that Millrace has.

#include "millrace/server.h"

int main(int argc, char** argv) { return millrace::server::RunServerApp(argc, argv); }
