import LupineTLS
import LupineTesting
import Testing

@Suite("Handshake and data")
struct HandshakeTests {
  @Test("Both versions, both ways of feeding", arguments: TLSVersion.allCases, Feeding.allCases)
  func exchange(version: TLSVersion, feeding: Feeding) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version), feeding: feeding)
    #expect(pair.client.failure == nil)
    #expect(pair.client.result == .open)
    #expect(pair.server.result == .open)
    let info = pair.client.connection.info
    #expect(info.version == version)
    #expect(info.applicationProtocol == "http/1.1")
    #expect(!info.isResumed)
    #expect(pair.server.connection.indicatedName == "localhost")
    #expect(pair.client.connection.peerChain == Mint.shared.leaf.chainDER)
    #expect(pair.client.connection.trustReport?.verdict == nil)
    try pair.client.send(Array("question".utf8))
    pair.settle()
    try pair.server.send(Array("answer".utf8))
    pair.settle()
    #expect(pair.server.received == Array("question".utf8))
    #expect(pair.client.received == Array("answer".utf8))
  }
}
