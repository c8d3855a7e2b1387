import FoundationEssentials
import LupineSession
import LupineTesting
import Testing

@Suite struct DataTests {
  @Test func getReturnsBodyAndHead() async throws {
    let server = try LoopbackServer { request, connection in
      try connection.respond(
        200, fields: ["Content-Type": "text/plain; charset=utf-8"], body: Array("Hello, world!".utf8))
    }
    defer { server.shutdown() }
    let session = try Session()
    let (body, response) = try await session.data(from: server.url("/hello?x=1"))
    #expect(String(decoding: body, as: UTF8.self) == "Hello, world!")
    #expect(response.statusCode == 200)
    #expect(response.mimeType == "text/plain")
    #expect(response.textEncodingName == "utf-8")
    #expect(server.recordedRequests.first?.target == "/hello?x=1")
  }

  @Test func connectionIsReused() async throws {
    let server = try LoopbackServer { request, connection in
      try connection.respond(200, body: Array(request.target.utf8))
    }
    defer { server.shutdown() }
    let session = try Session()
    for index in 0..<20 {
      let (body, response) = try await session.data(from: server.url("/\(index)"))
      #expect(String(decoding: body, as: UTF8.self) == "/\(index)")
      #expect(response.metrics.transactions.first?.isReusedConnection == (index > 0))
    }
    #expect(server.connectionCount == 1)
    let statistics = await session.poolStatistics()
    #expect(statistics.opened == 1)
    #expect(statistics.reused == 19)
  }
}
