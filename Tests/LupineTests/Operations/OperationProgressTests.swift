import Dispatch
import Foundation
import LupineTesting
import Testing

@testable import Lupine

/// What operations tell of how far they are.
@Suite struct OperationProgressTests {
  /// The length that is announced of a coded body is not that of what comes out of it, which nobody knows; that of a
  /// plain body is.
  @Test func codedBodiesHaveNoExpectedLength() async throws {
    let bytes = PatternBody.bytes(200_000)
    let packed = try Compression.gzip.encode(bytes)
    let server = try LoopbackServer(routes: [
      ServerRoute("GET", "/packed") { _, connection in
        try connection.respond(fields: ["Content-Encoding": "gzip"], body: packed)
      },
      ServerRoute("GET", "/plain") { _, connection in try connection.respond(body: bytes) },
    ])
    defer { server.shutdown() }
    let session = try Session(SessionConfiguration())
    defer { session.invalidateAndCancel() }
    let queue = DispatchQueue(label: "progress")
    let rows: [(path: String, expected: Int64?)] = [("/packed", nil), ("/plain", 200_000)]
    for (path, expected) in rows {
      let operation = HTTPRequestOperation(request: try Request(server.url(path)), session: session)
      operation.completionQueue = queue
      let steps = Calls<[Int64?]>()
      operation.setDownloadProgress { steps.note([$0, $1, $2]) }
      operation.start()
      #expect(await until { operation.isFinished })
      #expect(operation.responseData == Data(bytes))
      let all = queue.sync { steps.all }
      #expect(all.last?[1] == 200_000 && all.allSatisfy { $0[2] == expected }, "\(path)")
      #expect(all.compactMap { $0[0] }.reduce(0, +) == 200_000, "\(path)")
    }
  }

  /// Handlers that are called on a concurrent queue hear of one step after the other.
  @Test func progressIsInOrderOnAConcurrentQueue() async throws {
    let session = try Session(.ephemeral)
    let operation = HTTPRequestOperation(request: try Request("http://127.0.0.1/"), session: session)
    operation.completionQueue = DispatchQueue(label: "progress", attributes: .concurrent)
    let steps = Calls<Int64>()
    let overlap = OverlapDetector()
    operation.setUploadProgress { _, total, _ in overlap.during { steps.note(total) } }
    // Nothing of the exchange is told meanwhile.
    session.delegateQueue.suspend()
    operation.start()
    let all = Array(Int64(1)...500)
    for total in all { operation.sent(1, total, 500, 1) }
    #expect(try await steps.first(500) == all)
    #expect(!overlap.isFound)
    operation.cancel()
    session.delegateQueue.resume()
    #expect(await until { operation.isFinished })
    session.invalidateAndCancel()
  }
}
