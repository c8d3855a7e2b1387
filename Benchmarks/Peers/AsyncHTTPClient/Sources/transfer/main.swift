import AsyncHTTPClient
import BenchmarkSupport
import Glibc
import NIOCore
import NIOPosix
import NIOSSL

// The same work as Sources/Transfer, by AsyncHTTPClient: one large body down or up.
let usage = "transfer download URL [--memory | --to FILE] [--ca FILE] | upload URL FILE [--ca FILE]"

/// A file in pieces of 256 KiB.
struct FileChunks: AsyncSequence, Sendable {
  typealias Element = ByteBuffer
  let path: String

  struct AsyncIterator: AsyncIteratorProtocol {
    let descriptor: Int32

    func next() async throws -> ByteBuffer? {
      var buffer = ByteBuffer()
      let size = buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: 1 << 18) { space in
        Swift.max(0, Glibc.read(descriptor, space.baseAddress, 1 << 18))
      }
      return size > 0 ? buffer : nil
    }
  }

  func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(descriptor: Glibc.open(path, O_RDONLY))
  }
}

func download(_ client: HTTPClient, _ url: String) async throws -> Int {
  let request = HTTPClientRequest(url: url)
  if let path = option("--to") {
    let delegate = try FileDownloadDelegate(path: path)
    let progress = try await client.execute(request: HTTPClient.Request(url: url), delegate: delegate).get()
    return progress.receivedBytes
  }
  let response = try await client.execute(request, timeout: .seconds(600))
  precondition(response.status == .ok)
  if CommandLine.arguments.contains("--memory") { return try await response.body.collect(upTo: 1 << 40).readableBytes }
  var received = 0
  for try await chunk in response.body { received += chunk.readableBytes }
  return received
}

func upload(_ client: HTTPClient, _ url: String, _ path: String) async throws -> Int {
  var status = stat()
  precondition(stat(path, &status) == 0)
  var request = HTTPClientRequest(url: url)
  request.method = .PUT
  request.body = .stream(FileChunks(path: path), length: .known(Int64(status.st_size)))
  let response = try await client.execute(request, timeout: .seconds(600))
  precondition(response.status == .ok)
  return status.st_size
}

runBlocking {
  let arguments = CommandLine.arguments
  let isUpload = arguments.dropFirst().first == "upload"
  guard arguments.count >= (isUpload ? 4 : 3) else { misuse(usage) }
  var configuration = HTTPClient.Configuration(certificateVerification: .fullVerification)
  if let authority = option("--ca") { configuration.tlsConfiguration?.trustRoots = .file(authority) }
  configuration.httpVersion = .http1Only
  let client = HTTPClient(
    eventLoopGroupProvider: .shared(MultiThreadedEventLoopGroup(numberOfThreads: 1)), configuration: configuration)
  let before = Cost()
  let received = isUpload ? 0 : try await download(client, arguments[2])
  let sent = isUpload ? try await upload(client, arguments[2], arguments[3]) : 0
  printTransfer(received: received, sent: sent, since: before)
  exit(0)
}
