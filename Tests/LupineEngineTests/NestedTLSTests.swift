import LupineBase
import LupineEngine
import LupineIO
import LupineRules
import LupineSimulation
import LupineTLS
import LupineTesting
import LupineWire
import Testing

/// The TLS of an origin within that of a proxy: what the one says of its end, or has half said, is not said by the other.
@Suite(.timeLimit(.minutes(1))) struct NestedTLSTests {
  private final class Client {
    private static let second: Int64 = 1_000_000_000
    let drive: Drive
    let proxy: TLSConnection
    let origin: TLSConnection
    private var asked: [UInt8] = []
    private var request: [UInt8] = []
    private var isEstablished = false

    init() throws {
      let authority = try CertificateAuthority()
      var trusting = TLSPolicy()
      trusting.roots = .certificates([authority.rootDER])
      let policy = trusting
      func server(_ name: String) throws -> TLSConnection {
        let leaf = try authority.issue(CertificateOrder(dnsNames: [name]))
        let identity = TLSIdentity(.der(chain: leaf.chainDER, privateKey: leaf.privateKeyDER))
        let context = try TLSContext(server: identity, policy: policy, clientAuthentication: .none)
        return try TLSConnection(server: context)
      }
      proxy = try server("h")
      origin = try server("a.example")
      drive = try Drive()
      var route = ProxyRoute(kind: .https, endpoint: try ProxyURLReader.read("https://h").endpoint, tunnels: true)
      route.tls = policy
      var identity = ConnectionIdentity(host: "a.example", serverName: "a.example", port: 443, tls: policy)
      identity.route = .proxy(route)
      var head: [UInt8] = []
      try RequestEncoder.head(method: "GET", target: "/", fields: [("Host", "a.example")], into: &head)
      drive.start(TransferRequest(key: PoolKey(identity), method: "GET", head: head, context: RequestContext()))
    }

    func output(of server: TLSConnection) -> [UInt8] {
      var output: [UInt8] = []
      server.drainOutput { bytes in
        output += [UInt8](bytes)
        return bytes.count
      }
      return output
    }

    /// What the origin has to say, and then what the proxy has, as it goes over the wire.
    func wrapped() throws -> [UInt8] {
      let inner = output(of: origin)
      if !inner.isEmpty { try proxy.send(inner.span) }
      return output(of: proxy)
    }

    func deliver(_ bytes: [UInt8]) {
      guard !bytes.isEmpty else { return }
      let sent = drive.servers[0].send(bytes.span)
      #expect(sent == bytes.count)
      drive.settle()
    }

    /// Until the origin has the request. The policy is read on a file thread, which takes its time.
    func shakeHands() throws {
      let end = EventLoop.monotonicNow().advanced(byNanoseconds: 30 * Self.second)
      while drive.outcomes.isEmpty, request.isEmpty, EventLoop.monotonicNow() < end {
        drive.settle()
        deliver(try wrapped())
        let bytes = drive.receive(0)
        var taken: [UInt8] = []
        _ = try proxy.receive(bytes.span) { plaintext in taken += [UInt8](plaintext) }
        if isEstablished {
          _ = try origin.receive(taken.span) { plaintext in request += [UInt8](plaintext) }
        } else {
          asked += taken
          guard asked.suffix(4).elementsEqual([13, 10, 13, 10]) else { continue }
          isEstablished = true
          try proxy.send(Array("HTTP/1.1 200 OK\r\n\r\n".utf8).span)
        }
      }
      #expect(String(decoding: request, as: UTF8.self).hasPrefix("GET / HTTP/1.1\r\n"), "\(drive.outcomes)")
      // The tickets.
      deliver(try wrapped())
    }
  }

  /// A proxy that ends its own TLS says nothing of the body.
  @Test(arguments: [false, true]) func theEndIsForTheOriginToSay(_ originSaysIt: Bool) throws {
    let client = try Client()
    try client.shakeHands()
    try client.origin.send(Array("HTTP/1.1 200 OK\r\n\r\nhello".utf8).span)
    if originSaysIt { client.origin.close() }
    client.deliver(try client.wrapped())
    // Whom the origin has told of its end listens no longer.
    #expect(client.drive.outcomes.isEmpty == !originSaysIt)
    if !originSaysIt {
      client.proxy.close()
      client.deliver(client.output(of: client.proxy))
    }
    let outcome = try #require(client.drive.outcomes.first)
    #expect(outcome.status == 200 && outcome.body == Array("hello".utf8))
    if originSaysIt {
      #expect(outcome.failure == nil)
    } else if case .tls(.truncated)? = outcome.failure?.error {
    } else {
      Issue.record("\(outcome)")
    }
    client.drive.end()
  }

  /// Its rest would come as the next response's.
  @Test(arguments: [1, 5, 40]) func aPartOfTheProxysRecord(_ count: Int) throws {
    let client = try Client()
    try client.shakeHands()
    try client.origin.send(Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8).span)
    let response = try client.wrapped()
    try client.origin.send(Array("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".utf8).span)
    let poison = try client.wrapped()
    #expect(poison.count > count)
    client.deliver(response + poison.prefix(count))
    #expect(client.drive.outcomes.map(\.status) == [200])
    #expect(client.drive.servers[0].isHungUp)
    client.drive.end()
  }
}
