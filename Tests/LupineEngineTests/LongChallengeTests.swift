import LupineBase
import LupineEngine
import LupineIO
import LupineRules
import LupineSimulation
import LupineTLS
import LupineTesting
import LupineWire
import Testing

/// A proxy whose 407 has a body that nobody reads to its end.
@Suite(.timeLimit(.minutes(1))) struct LongChallengeTests {
  private static let second: Int64 = 1_000_000_000

  private func requestThrough(_ policy: TLSPolicy) throws -> TransferRequest {
    var route = ProxyRoute(kind: .https, endpoint: try ProxyURLReader.read("https://h").endpoint, tunnels: true)
    route.tls = policy
    route.credentials = ProxyCredentials(.password(user: "u", password: "p"))
    var identity = ConnectionIdentity(host: "a.example", serverName: "a.example", port: 80, tls: nil)
    identity.route = .proxy(route)
    var head: [UInt8] = []
    try RequestEncoder.head(method: "GET", target: "/", fields: [("Host", "a.example")], into: &head)
    return TransferRequest(key: PoolKey(identity), method: "GET", head: head, context: RequestContext())
  }

  private func takeOutput(_ proxy: TLSConnection) -> [UInt8] {
    var output: [UInt8] = []
    proxy.drainOutput { bytes in
      output += [UInt8](bytes)
      return bytes.count
    }
    return output
  }

  /// Carries to and fro what both say, until the proxy has been asked for a tunnel. The policy is read on a file thread, which takes its time.
  private func ask(_ proxy: TLSConnection, _ drive: Drive) throws -> String {
    var asked: [UInt8] = []
    let end = EventLoop.monotonicNow().advanced(byNanoseconds: 30 * Self.second)
    while drive.outcomes.isEmpty, asked.isEmpty, EventLoop.monotonicNow() < end {
      drive.settle()
      let output = takeOutput(proxy)
      if !output.isEmpty {
        let sent = drive.servers[0].send(output.span)
        #expect(sent == output.count)
      }
      let bytes = drive.receive(0)
      _ = try proxy.receive(bytes.span) { plaintext in asked += [UInt8](plaintext) }
    }
    return String(decoding: asked, as: UTF8.self)
  }

  /// More comes with one read than TLS hands out at a time: the next question goes over another connection all the same.
  @Test func overTLSItComesInPieces() throws {
    let authority = try CertificateAuthority()
    let leaf = try authority.issue(CertificateOrder(dnsNames: ["h"]))
    var policy = TLSPolicy()
    policy.roots = .certificates([authority.rootDER])
    let identity = TLSIdentity(.der(chain: leaf.chainDER, privateKey: leaf.privateKeyDER))
    let context = try TLSContext(server: identity, policy: policy, clientAuthentication: .none)
    let proxy = try TLSConnection(server: context)
    let drive = try Drive()
    // As much as a system with no settings of its own gives, which doubles it: more than one read.
    drive.serverBuffer = 212_992
    drive.start(try requestThrough(policy))
    let asked = try ask(proxy, drive)
    #expect(asked.hasPrefix("CONNECT a.example:80 "), "\(drive.outcomes)")
    let head = "HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=\"p\"\r\nContent-Length: 1000000\r\n\r\n"
    try proxy.send(Array(head.utf8).span)
    // In records that are small, so that there is an end of one near the end of what is read.
    let piece = [UInt8](repeating: 0, count: 1000)
    for _ in 0..<250 { try proxy.send(piece.span) }
    let answer = takeOutput(proxy)
    #expect(answer.count > 250_000 && answer.count <= LoopContext.readBufferSize)
    let sent = drive.servers[0].send(answer.span)
    #expect(sent == answer.count)
    drive.settle()
    #expect(drive.outcomes.isEmpty && drive.servers.count == 2, "\(drive.outcomes)")
    // The next one hangs up.
    if drive.servers.count > 1 { drive.servers[1].close() }
    let end = EventLoop.monotonicNow().advanced(byNanoseconds: 30 * Self.second)
    while drive.outcomes.isEmpty, EventLoop.monotonicNow() < end { drive.settle() }
    guard case .proxy? = drive.outcomes.first?.failure?.error else {
      Issue.record("\(drive.outcomes)")
      return
    }
    drive.end()
  }
}
