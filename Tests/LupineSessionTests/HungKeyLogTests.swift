import FoundationEssentials
import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

@testable import LupineSession

/// Key logs on a disk that hangs. One at a time: each keeps a thread of the process.
@Suite(.serialized, .timeLimit(.minutes(5))) struct HungKeyLogTests {
  /// The connection waits a second for it, and others do not.
  @Test func holdsNobodyUp() async throws {
    let pipe = try FullPipe()
    let plain = try LoopbackServer(routes: ServerRoute.standard())
    defer { plain.shutdown() }
    try await withServer(isSecure: true, configure: { $0.tls.keyLogPath = pipe.path }) { session, server in
      let url = server.url("/hello")
      let begun = ContinuousClock.now
      let ends = Locked<[String]>([])
      let answer = Task {
        let body = try await session.data(from: url).0
        ends.withLock { $0.append("secret") }
        return body
      }
      // The server's side of the handshake is over, and so the client's.
      #expect(await eventually { server.tlsSummaries[1] != nil })
      try await session.expect("Hello, world!", from: plain.url("/hello"))
      ends.withLock { $0.append("plain") }
      let waited = begun.duration(to: .now)
      let body = try await answer.value
      #expect(String(decoding: body, as: UTF8.self) == "Hello, world!")
      // In this order, unless this process had no time for a second.
      if waited < .milliseconds(900) { #expect(ends.withLock { $0 } == ["plain", "secret"]) }
      // Who has a response has the secrets, where they can be had.
      #expect(begun.duration(to: .now) > .milliseconds(900))
      var found = ""
      let isComplete = await eventually {
        found += pipe.read()
        return found.hasSuffix("\n") && found.split(separator: "\n").count >= 5
      }
      #expect(isComplete, "\(found)")
      #expect(found.split(separator: "\n").allSatisfy { $0.split(separator: " ").count == 3 })
      #expect(found.contains("CLIENT_TRAFFIC_SECRET_0 "))
    }
  }

  /// However many sessions write to a disk that hangs, policies that nobody knows yet are read, and one of them has waited for all.
  @Test func takesNoThreadFromOthers() async throws {
    let pipe = try FullPipe()
    try await withServer(isSecure: true) { _, server in
      let root = try TestIdentity.authority.get().rootDER
      for (number, path) in [pipe.path, pipe.path, pipe.path, pipe.path, pipe.path, nil].enumerated() {
        try await withSession(configure: {
          // A policy of its own, which trusts the same.
          $0.tls.additionalRoots = [[UInt8]](repeating: root, count: number + 1)
          $0.tls.keyLogPath = path
        }) { session in
          try await session.expect("Hello, world!", from: server.url("/hello"))
        }
      }
    }
  }

  /// What the proxy's TLS brings meanwhile, the end of a tunnel, is looked at as well.
  @Test func withinAProxysTLS() async throws {
    let pipe = try FullPipe()
    let identity = try TestIdentity.server()
    let tunnel: [ScriptStep] = [.readHead, .send("HTTP/1.1 200 OK\r\n\r\n"), .startTLS(identity)]
    let proxy = try ScriptedServer(
      [tunnel + [.close], tunnel + [.readHead, .send(reply("hi")), .waitForClose]])
    defer { proxy.shutdown() }
    let front = try ProxyProgram(.stunnel(identity, to: proxy.port))
    defer { front.stop() }
    let chosen = try TestIdentity.proxy(front.port)
    try await withSession(ports: [front.port]) {
      $0.tls.keyLogPath = pipe.path
      $0.proxy = .proxy(chosen)
    } _: { session in
      try await session.expect("hi", from: "https://localhost:7443/")
      #expect(proxy.recordedRequests.map(\.target) == ["localhost:7443", "localhost:7443", "/"])
    }
  }
}
