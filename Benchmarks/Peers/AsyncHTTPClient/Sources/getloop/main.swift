import AsyncHTTPClient
import BenchmarkSupport
import Glibc
import NIOCore
import NIOPosix
import NIOSSL

// The same work as Sources/GetLoop, by AsyncHTTPClient's `execute` with one event loop. It resumes no TLS sessions.

let options = LoopOptions(usage: "getloop " + LoopOptions.usage)

func worker(_ client: HTTPClient, _ count: Int) async throws -> LoopTally {
  var tally = LoopTally(options)
  var request = HTTPClientRequest(url: options.url)
  request.headers.add(name: "User-Agent", value: "peer")
  request.headers.add(name: "Accept-Encoding", value: "gzip, deflate")
  if !options.reusesConnections { request.headers.add(name: "Connection", value: "close") }
  for _ in 0..<count {
    let start = tally.start()
    let response = try await client.execute(request, timeout: .seconds(60))
    let body = try await response.body.collect(upTo: 1 << 30)
    precondition(response.status == .ok && body.readableBytes > 0)
    tally.note(count: body.readableBytes, first: body.readableBytesView.first, since: start)
  }
  return tally
}

func run(_ client: HTTPClient, _ count: Int) async throws -> LoopTally {
  try await withThrowingTaskGroup(of: LoopTally.self) { group in
    for index in 0..<options.concurrency {
      group.addTask { try await worker(client, options.share(of: count, worker: index)) }
    }
    var total = LoopTally(options)
    for try await tally in group { total.add(tally) }
    return total
  }
}

runBlocking {
  var configuration = HTTPClient.Configuration(certificateVerification: .fullVerification)
  if let authority = options.authority { configuration.tlsConfiguration?.trustRoots = .file(authority) }
  configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = options.connections
  configuration.httpVersion = .http1Only
  configuration.decompression = .enabled(limit: .none)
  let client = HTTPClient(
    eventLoopGroupProvider: .shared(MultiThreadedEventLoopGroup(numberOfThreads: 1)), configuration: configuration)
  _ = try await run(client, options.warmUpCount)
  let before = Cost()
  let tally = try await run(client, options.count)
  tally.printJSON(options, since: before)
  exit(0)
}
