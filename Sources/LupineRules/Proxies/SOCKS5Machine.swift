internal import LupineBase

/// Where a SOCKS proxy is to connect to.
package enum SOCKS5Target: Hashable, Sendable {
  /// Resolved by the proxy.
  case name(String)
  case address(InternetAddress)
}

/// What a SOCKS proxy answers to CONNECT when it does not connect (RFC 1928 section 6).
package enum SOCKS5Reply: Hashable, Sendable {
  case generalFailure
  case notAllowed
  case networkUnreachable
  case hostUnreachable
  case connectionRefused
  case timeToLiveExpired
  case commandNotSupported
  case addressTypeNotSupported
  case other(UInt8)

  init(_ code: UInt8) {
    self =
      switch code {
      case 1: .generalFailure
      case 2: .notAllowed
      case 3: .networkUnreachable
      case 4: .hostUnreachable
      case 5: .connectionRefused
      case 6: .timeToLiveExpired
      case 7: .commandNotSupported
      case 8: .addressTypeNotSupported
      default: .other(code)
      }
  }
}

/// Why a SOCKS handshake fails.
package enum SOCKS5Error: Error, Hashable, Sendable {
  /// Of the caller, before anything is sent (curl CVE-2023-38545): a name has 1 to 255 bytes.
  case nameLength(Int)
  /// 1 to 255 bytes (RFC 1929).
  case userLength(Int)
  /// At most 255 bytes.
  case passwordLength(Int)
  /// Not the version that we speak: perhaps no SOCKS proxy at all.
  case wrongVersion(UInt8)
  /// The proxy takes none of the ways that we offered to show who is asking; whether user and password were among them.
  case noAcceptableMethod(offeredPassword: Bool)
  case methodNotOffered(UInt8)
  /// User and password are wrong.
  case credentialsRefused(UInt8)
  case refused(SOCKS5Reply)
  case unknownAddressType(UInt8)
}

/// The client's side of SOCKS5 up to the tunnel (RFC 1928, RFC 1929), pure.
///
///     method -> authentication | reply      the proxy chose how to be shown who is asking
///     authentication -> reply               user and password were accepted
///     reply -> established                  what follows belongs to the tunnel
///     every state -> failed                 for good; the same error is thrown again
///
/// Invariants: nothing is sent whose length does not fit its field; no byte is looked at twice; nothing beyond the last byte of an answer
/// is taken; the user and the password go out only after the proxy asked for them.
package struct SOCKS5Machine: Sendable {
  package enum Step: Hashable, Sendable {
    case needMore
    /// Send this, then go on.
    case send([UInt8])
    case established
  }

  private enum State: Hashable, Sendable {
    case method
    case authentication
    case reply
    case established
    case failed(SOCKS5Error)
  }

  private var state = State.method
  /// The answer under way.
  private var answer: [UInt8] = []
  private let request: [UInt8]
  /// The message of RFC 1929; nil: no credentials.
  private let credentials: [UInt8]?

  /// - Throws: `nameLength`, `userLength` or `passwordLength`.
  package init(_ target: SOCKS5Target, port: UInt16, secret: CredentialSecret? = nil) throws(SOCKS5Error) {
    var request: [UInt8] = [5, 1, 0]
    switch target {
    case .name(let name):
      let bytes = Array(name.utf8)
      guard (1...255).contains(bytes.count) else { throw .nameLength(bytes.count) }
      request += [3, UInt8(bytes.count)] + bytes
    case .address(let address):
      request += [address.family == .v4 ? 1 : 4] + address.bytes
    }
    self.request = request + [UInt8(port >> 8), UInt8(port & 0xFF)]
    guard case .password(let user, let password) = secret else {
      credentials = nil
      return
    }
    let (userBytes, passwordBytes) = (Array(user.utf8), Array(password.utf8))
    guard (1...255).contains(userBytes.count) else { throw .userLength(userBytes.count) }
    guard passwordBytes.count <= 255 else { throw .passwordLength(passwordBytes.count) }
    credentials = [1, UInt8(userBytes.count)] + userBytes + [UInt8(passwordBytes.count)] + passwordBytes
  }

  /// What is sent first.
  package var greeting: [UInt8] { credentials == nil ? [5, 1, 0] : [5, 2, 0, 2] }

  /// Takes bytes of the proxy from `offset` on, and moves it past them.
  package mutating func receive(_ input: Span<UInt8>, _ offset: inout Int) throws(SOCKS5Error) -> Step {
    do throws(SOCKS5Error) {
      while answer.count < wanted {
        guard offset < input.count else { return .needMore }
        answer.append(input[offset])
        offset += 1
        try check()
      }
      return try finishAnswer()
    } catch {
      state = .failed(error)
      throw error
    }
  }

  /// Bytes of the answer under way, as far as they are known yet.
  private var wanted: Int {
    switch state {
    case .method, .authentication: return 2
    case .established, .failed: return 0
    case .reply:
      guard answer.count >= 4 else { return 4 }
      switch answer[3] {
      case 1: return 10
      case 4: return 22
      default: return answer.count > 4 ? 7 + Int(answer[4]) : 5
      }
    }
  }

  /// Looks at the byte that came last: an answer that says no need not be complete.
  private func check() throws(SOCKS5Error) {
    let byte = answer[answer.count - 1]
    switch (state, answer.count) {
    case (.method, 1), (.reply, 1):
      guard byte == 5 else { throw .wrongVersion(byte) }
    case (.authentication, 1):
      guard byte == 1 else { throw .wrongVersion(byte) }
    case (.authentication, 2):
      guard byte == 0 else { throw .credentialsRefused(byte) }
    case (.reply, 2):
      guard byte == 0 else { throw .refused(SOCKS5Reply(byte)) }
    case (.reply, 4):
      guard byte == 1 || byte == 3 || byte == 4 else { throw .unknownAddressType(byte) }
    default: break
    }
  }

  private mutating func finishAnswer() throws(SOCKS5Error) -> Step {
    switch state {
    case .method:
      let method = answer[1]
      answer = []
      switch method {
      case 0:
        state = .reply
        return .send(request)
      case 2:
        guard let credentials else { throw .methodNotOffered(method) }
        state = .authentication
        return .send(credentials)
      case 0xFF: throw .noAcceptableMethod(offeredPassword: credentials != nil)
      default: throw .methodNotOffered(method)
      }
    case .authentication:
      answer = []
      state = .reply
      return .send(request)
    case .reply, .established:
      answer = []
      state = .established
      return .established
    case .failed(let error): throw error
    }
  }
}
