import FoundationEssentials
import Glibc
import HTTPTypes
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// Servers that others wrote: nginx, `openssl s_server`, Python's `http.server`.
@Suite(.timeLimit(.minutes(5))) struct RealServerTests {
  @Test(arguments: [false, true]) func nginx(_ isSecure: Bool) async throws {
    try await withTool {
      let bytes = PatternBody.bytes(1_000_000)
      let server = try NginxServer(
        files: ["data.bin": bytes, "text.txt": Array(String(repeating: "words ", count: 10_000).utf8)],
        tls: try TestIdentity.server())
      defer { server.stop() }
      let port = isSecure ? try #require(server.tlsPort) : server.port
      let base = isSecure ? "https://localhost:\(port)" : "http://127.0.0.1:\(port)"
      try await withSession(ports: [port]) { session in
        for index in 0..<20 {
          let response = try await session.expect("Hello, world!", from: base + "/hello")
          #expect(response.wasReused == (index > 0))
        }
        #expect(try await Array(session.data(from: base + "/data.bin").0) == bytes)
        var range = try Request(base + "/data.bin")
        range.fields[.range] = "bytes=1000-1999"
        let (part, response) = try await session.data(for: range)
        #expect(response.statusCode == 206)
        #expect(part.count == 1000 && PatternBody.matches(part, from: 1000))
        let head = try await session.data(for: Request(base + "/data.bin", method: .head)).1
        #expect(head.expectedContentLength == 1_000_000)
        let (text, packed) = try await session.text(base + "/gzip/text.txt")
        #expect(text.utf8.count == 60_000)
        #expect(packed.head.fields.first(named: "content-encoding") == "gzip")
        #expect(try await session.data(from: base + "/missing").1.statusCode == 404)
        let upload = try Request(base + "/discard", method: .post)
        #expect(try await session.upload(for: upload, from: Data(bytes)).1.statusCode == 200)
        let chunks = AsyncStream<[UInt8]> { continuation in
          for start in stride(from: 0, to: 100_000, by: 1000) { continuation.yield(Array(bytes[start..<start + 1000])) }
          continuation.finish()
        }
        #expect(try await session.upload(for: upload, from: chunks).1.statusCode == 200)
        try await session.expect("Hello, world!", from: base + "/hello")
      }
    }
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"]) func opensslServer(_ version: String) async throws {
    try await withTool {
      let bytes = PatternBody.bytes(100_000)
      let server = try OpenSSLServer(
        tls: try TestIdentity.server(), mode: .files(["data.bin": bytes]), arguments: [version])
      defer { server.stop() }
      try await withSession(ports: [server.port]) { session in
        for _ in 0..<3 {
          let (body, response) = try await session.data(from: server.url("/data.bin"))
          #expect(Array(body) == bytes)
          #expect(response.metrics.transactions.first?.tlsVersion == (version == "-tls1_2" ? "TLSv1.2" : "TLSv1.3"))
        }
      }
    }
  }

  @Test(arguments: ["HTTP/1.0", "HTTP/1.1"]) func pythonServer(_ version: String) async throws {
    try await withTool {
      let bytes = PatternBody.bytes(300_000)
      let server = try PythonServer(files: ["data.bin": bytes, "directory/x.txt": Array("x".utf8)], version: version)
      defer { server.stop() }
      try await withSession(ports: [server.port]) { session in
        for index in 0..<3 {
          let (body, response) = try await session.data(from: server.url("/data.bin"))
          #expect(Array(body) == bytes)
          #expect(response.wasReused == (version == "HTTP/1.1" && index > 0))
        }
        // Without its final slash a directory is redirected, with a body and on the same connection.
        let (_, listing) = try await session.data(from: server.url("/directory"))
        #expect(listing.redirects.count == 1)
        #expect(listing.urlString.hasSuffix("/directory/"))
        #expect(try await session.data(from: server.url("/missing")).1.statusCode == 404)
      }
    }
  }
}
