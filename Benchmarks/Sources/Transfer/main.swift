import BenchmarkSupport
import Glibc
import LupineSession
import Synchronization

// One large body, down or up; prints what it cost this process, and its peak memory.
let usage = "Transfer download URL [--callbacks | --memory | --to FILE] [--ca FILE] | upload URL FILE [--ca FILE]"

struct Refused: Error {
  let status: Int
}

func configuration() -> SessionConfiguration {
  var configuration = SessionConfiguration()
  configuration.maximumBufferedBodySize = .max
  if let authority = option("--ca") { configuration.tls.roots = .file(authority) }
  return configuration
}

func download(_ url: String) async throws -> Int {
  let session = try Session(configuration())
  let request = try Request(url)
  if let path = option("--to") {
    let (_, response) = try await session.download(for: request, to: DownloadDestination(path: path, overwrites: true))
    return Int(response.metrics.transactions.last?.responseBodyBytes ?? 0)
  }
  if CommandLine.arguments.contains("--memory") { return try await session.data(for: request).0.count }
  if CommandLine.arguments.contains("--callbacks") { return try await receive(request, session) }
  let (body, response) = try await session.bytes(for: request)
  guard response.statusCode == 200 else { throw Refused(status: response.statusCode) }
  var received = 0
  for try await chunk in body.chunks { received += chunk.count }
  return received
}

final class Count: Sendable {
  private let value = Atomic(0)
  func add(_ amount: Int) { value.add(amount, ordering: .relaxed) }
  var total: Int { value.load(ordering: .relaxed) }
}

/// On the engine's thread, where the bytes lie.
func receive(_ request: Request, _ session: Session) async throws -> Int {
  let received = Count()
  return try await withCheckedThrowingContinuation { continuation in
    session.receive(request) { bytes in
      received.add(bytes.count)
    } completion: { result in
      continuation.resume(
        with: result.mapError { $0 as any Error }.flatMap { response in
          response.statusCode == 200
            ? .success(received.total) : .failure(Refused(status: response.statusCode))
        })
    }
  }
}

func upload(_ url: String, _ path: String) async throws -> Int {
  let session = try Session(configuration())
  let request = try Request(url, method: .put)
  let (_, response) = try await session.upload(for: request, fromFile: path)
  guard response.statusCode == 200 else { throw Refused(status: response.statusCode) }
  return Int(response.metrics.transactions.last?.requestBodyBytes ?? 0)
}

func transfer() async throws -> (received: Int, sent: Int) {
  let arguments = CommandLine.arguments
  switch arguments.dropFirst().first {
  case "download" where arguments.count >= 3: return (try await download(arguments[2]), 0)
  case "upload" where arguments.count >= 4: return (0, try await upload(arguments[2], arguments[3]))
  default: misuse(usage)
  }
}

runBlocking {
  let before = Cost()
  let (received, sent) = try await transfer()
  printTransfer(received: received, sent: sent, since: before)
}
