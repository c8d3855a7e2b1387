import LupineRules
import Testing

/// The client's side of SOCKS5, fed whole, byte by byte and at every split.
@Suite struct SOCKS5Tests {
  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var hasSecret = false
    var answer: [UInt8]
    /// What comes of it, in the words of `feed`.
    var log: [String]
    var testDescription: String { name }
  }

  private static let connect = "send [5, 1, 0, 3, 1, 104, 1, 187]"
  private static let login = "send [1, 1, 117, 1, 112]"
  private static func say(_ error: SOCKS5Error) -> String { "\(error)" }
  private static func reply(_ code: UInt8) -> [UInt8] { [5, 0, 5, code, 0, 1, 0, 0, 0, 0, 0, 0] }

  static let cases: [Case] = [
    Case(name: "IPv4", answer: reply(0), log: [connect, "established 12"]),
    Case(
      name: "IPv6", answer: [5, 0, 5, 0, 0, 4] + [UInt8](repeating: 9, count: 18), log: [connect, "established 24"]),
    Case(name: "name", answer: [5, 0, 5, 0, 0, 3, 2, 97, 98, 0, 80], log: [connect, "established 11"]),
    Case(name: "no name", answer: [5, 0, 5, 0, 0, 3, 0, 0, 80], log: [connect, "established 9"]),
    Case(name: "bytes behind", answer: reply(0) + [1, 2, 3], log: [connect, "established 12"]),
    Case(
      name: "password", hasSecret: true, answer: [5, 2, 1, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
      log: [login, connect, "established 14"]),
    Case(name: "password not wanted", hasSecret: true, answer: reply(0), log: [connect, "established 12"]),
    Case(name: "wrong password", hasSecret: true, answer: [5, 2, 1, 1], log: [login, say(.credentialsRefused(1))]),
    Case(name: "password version", hasSecret: true, answer: [5, 2, 5, 0], log: [login, say(.wrongVersion(5))]),
    Case(name: "method not offered", answer: [5, 2], log: [say(.methodNotOffered(2))]),
    Case(name: "GSSAPI", hasSecret: true, answer: [5, 1], log: [say(.methodNotOffered(1))]),
    Case(name: "no method", answer: [5, 255], log: [say(.noAcceptableMethod(offeredPassword: false))]),
    Case(
      name: "no method but another", hasSecret: true, answer: [5, 255],
      log: [say(.noAcceptableMethod(offeredPassword: true))]),
    Case(name: "HTTP", answer: Array("HTTP/1.1 400".utf8), log: [say(.wrongVersion(72))]),
    Case(name: "SOCKS4", answer: [0, 90], log: [say(.wrongVersion(0))]),
    Case(name: "reply's version", answer: [5, 0, 4, 0], log: [connect, say(.wrongVersion(4))]),
    Case(name: "address type", answer: [5, 0, 5, 0, 0, 2], log: [connect, say(.unknownAddressType(2))]),
    Case(name: "cut", answer: [5, 0, 5, 0, 0, 1, 0], log: [connect]),
    Case(name: "1", answer: reply(1), log: [connect, say(.refused(.generalFailure))]),
    Case(name: "2", answer: reply(2), log: [connect, say(.refused(.notAllowed))]),
    Case(name: "3", answer: reply(3), log: [connect, say(.refused(.networkUnreachable))]),
    Case(name: "4", answer: reply(4), log: [connect, say(.refused(.hostUnreachable))]),
    Case(name: "5", answer: reply(5), log: [connect, say(.refused(.connectionRefused))]),
    Case(name: "6", answer: reply(6), log: [connect, say(.refused(.timeToLiveExpired))]),
    Case(name: "7", answer: reply(7), log: [connect, say(.refused(.commandNotSupported))]),
    Case(name: "8", answer: reply(8), log: [connect, say(.refused(.addressTypeNotSupported))]),
    Case(name: "99", answer: reply(99), log: [connect, say(.refused(.other(99)))]),
  ]

  @Test(arguments: cases) func everySplitSaysTheSame(_ one: Case) throws {
    let bytes = one.answer
    #expect(try Self.feed(one, [bytes[...]]) == one.log)
    #expect(try Self.feed(one, bytes.indices.map { bytes[$0...$0] }) == one.log)
    for cut in 1..<bytes.count { #expect(try Self.feed(one, [bytes[..<cut], bytes[cut...]]) == one.log) }
  }

  private static func feed(_ one: Case, _ pieces: [ArraySlice<UInt8>]) throws -> [String] {
    var machine = try SOCKS5Machine(
      .name("h"), port: 443, secret: one.hasSecret ? .password(user: "u", password: "p") : nil)
    var log: [String] = []
    var taken = 0
    for piece in pieces {
      let piece = Array(piece)
      var offset = 0
      while true {
        let step: SOCKS5Machine.Step
        do {
          step = try machine.receive(piece.span, &offset)
        } catch {
          return log + [say(error)]
        }
        if step == .needMore { break }
        if case .send(let bytes) = step { log.append("send \(bytes)") }
        if step == .established { return log + ["established \(taken + offset)"] }
      }
      taken += offset
    }
    return log
  }

  @Test func theGreetingOffersWhatThereIs() throws {
    #expect(try SOCKS5Machine(.name("h"), port: 1).greeting == [5, 1, 0])
    #expect(
      try SOCKS5Machine(.name("h"), port: 1, secret: .password(user: "u", password: "")).greeting == [5, 2, 0, 2])
  }

  @Test func anAddressIsSentAsOne() throws {
    let address = try #require(try URLReader.read("http://[2001:db8::1]/").host.internetAddress)
    var machine = try SOCKS5Machine(.address(address), port: 0x1234)
    var offset = 0
    let step = try machine.receive([5, 0].span, &offset)
    #expect(step == .send([5, 1, 0, 4, 0x20, 1, 0x0D, 0xB8] + [UInt8](repeating: 0, count: 11) + [1, 0x12, 0x34]))
  }

  /// curl CVE-2023-38545: a name that was too long for its field overflowed the heap, later in the handshake. It is refused before the first
  /// byte here.
  @Test func aNameHas255BytesAtMost() throws {
    _ = try SOCKS5Machine(.name(String(repeating: "a", count: 255)), port: 1)
    #expect(throws: SOCKS5Error.nameLength(256)) {
      try SOCKS5Machine(.name(String(repeating: "a", count: 256)), port: 1)
    }
    #expect(throws: SOCKS5Error.nameLength(0)) { try SOCKS5Machine(.name(""), port: 1) }
    let long = String(repeating: "a", count: 256)
    #expect(throws: SOCKS5Error.userLength(256)) {
      try SOCKS5Machine(.name("h"), port: 1, secret: .password(user: long, password: ""))
    }
    #expect(throws: SOCKS5Error.passwordLength(256)) {
      try SOCKS5Machine(.name("h"), port: 1, secret: .password(user: "u", password: long))
    }
  }
}
