internal import LupineBase
internal import LupineRules
internal import LupineWire

/// Oracle: whatever a proxy says, nothing traps; any split of it gives the same steps and takes as many bytes; what is sent fits its fields
/// and is a request that our parser's rules allow; rounds are limited; credentials go out only after they were asked for; the texts of the
/// environment that name proxies and exceptions are read the same again, and no other variable than those documented says anything.
///
/// The first byte chooses: SOCKS or CONNECT, with or without credentials, name or address; or the readers of URLs and exceptions.
package enum ProxyHandshakeFuzz {
  private static let secret = CredentialSecret.password(user: "user", password: "SECRET")

  package static func run(bytes: [UInt8]) {
    guard let option = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    switch option & 3 {
    case 0: compare(rest) { socks(option, $0) }
    case 1, 2:
      // What a proxy says itself goes back to it, without the backslashes that quote it.
      let said = String(decoding: rest.filter { $0 != UInt8(ascii: "\\") }, as: UTF8.self)
      if !said.contains("SECRET") { compare(rest) { tunnel(option, $0) } }
    default: texts(rest)
    }
  }

  /// Whole, byte by byte, and cut in two.
  private static func compare(_ input: [UInt8], _ feed: ([ArraySlice<UInt8>]) -> [String]) {
    let whole = feed([input[...]])
    precondition(whole == feed(input.indices.map { input[$0...$0] }), "byte by byte it is another story")
    for cut in Set([1, input.count / 3, input.count / 2, input.count - 1]) where cut > 0 && cut < input.count {
      precondition(whole == feed([input[..<cut], input[cut...]]), "cut in two it is another story")
    }
  }

  private static func socks(_ option: UInt8, _ pieces: [ArraySlice<UInt8>]) -> [String] {
    let target: SOCKS5Target
    if option & 8 != 0, let address = InternetAddress([192, 0, 2, 1], family: .v4) {
      target = .address(address)
    } else {
      target = .name(String(repeating: "n", count: 1 + Int(option >> 4)))
    }
    let hasSecret = option & 4 != 0
    guard var machine = try? SOCKS5Machine(target, port: 443, secret: hasSecret ? secret : nil) else {
      preconditionFailure("a target that fits was refused")
    }
    var log = ["\(machine.greeting)"]
    var taken = 0
    for piece in pieces {
      let piece = Array(piece)
      var offset = 0
      while true {
        do {
          let step = try machine.receive(piece.span, &offset)
          if step == .needMore {
            precondition(offset == piece.count, "it wants more and has not taken what there is")
            break
          }
          log.append("\(step)")
          if case .send(let message) = step {
            precondition(message.count <= 515, "a message is too long")
            if message.first == 1 { precondition(hasSecret && log.count == 2, "credentials that nobody asked for") }
          } else {
            return log + ["taken \(taken + offset)"]
          }
          precondition(log.count <= 4, "more messages than the protocol has")
        } catch {
          return log + ["\(error)"]
        }
      }
      taken += offset
    }
    return log
  }

  private static func tunnel(_ option: UInt8, _ pieces: [ArraySlice<UInt8>]) -> [String] {
    let tools = ProxyAuthenticationTools { hash, _ in
      [UInt8](repeating: 7, count: hash.length)
    } clientNonce: {
      "cn"
    }
    var credentials = ProxyCredentials(secret)
    credentials.isPreemptive = option & 8 != 0
    credentials.allowsBasic = option & 16 == 0
    let authentication = ProxyAuthentication(
      option & 4 != 0 ? credentials : nil, isSecure: option & 32 != 0, remembered: nil, tools: tools)
    var machine = ConnectTunnel(
      authority: "h:443", fields: [("X-A", "b")], authentication: authentication, limits: WireLimits())
    guard let first = try? machine.request() else { preconditionFailure("CONNECT could not be made") }
    var log = [String(decoding: first, as: UTF8.self)]
    var taken = 0
    for piece in pieces {
      let piece = Array(piece)
      var offset = 0
      while true {
        do {
          switch try machine.receive(piece.span, &offset) {
          case .needMore: precondition(offset == piece.count, "it wants more and has not taken what there is")
          case .established: return log + ["established after \(taken + offset)"]
          case .send(let head):
            log.append(check(head))
            precondition(log.count <= 1 + ProxyAuthentication.maximumRounds, "it asks for ever")
            continue
          case .reconnect(let head):
            // What the old connection still says is dropped, however much of it was taken.
            return log + ["again", check(head)]
          }
          break
        } catch {
          if case .refused(let refusal) = error { return log + ["refused \(refusal.status)"] }
          return log + ["\(error)"]
        }
      }
      taken += offset
    }
    return log
  }

  private static func check(_ head: [UInt8]) -> String {
    let text = String(decoding: head, as: UTF8.self)
    precondition(text.hasPrefix("CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n") && text.hasSuffix("\r\n\r\n"))
    precondition(!text.contains("SECRET"), "the password in the clear")
    precondition(text.dropLast(4).split(separator: "\r\n").count == 4, "a head with other lines than ours")
    return text
  }

  private static func texts(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    environment(text)
    let lines = text.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false).map { String($0) }
    if let server = try? ProxyURLReader.read(lines[0]) {
      precondition(!server.text.contains("@") || server.text.contains("+unix"), "userinfo in a text for people")
      if case .host = server.endpoint {
        var plain = server
        plain.secret = nil
        precondition((try? ProxyURLReader.read(server.text)) == plain, "it reads differently when written down")
      }
    }
    let list = NoProxyList(lines.count > 1 ? lines[1] : text)
    for url in ["http://a.example/", "http://10.1.2.3:81/", "https://[2001:db8::1]/", "http://[fe80::1%25eth0]/"] {
      guard let origin = try? URLReader.read(url).origin else { preconditionFailure("a URL of ours is unreadable") }
      let verdict = list.exempts(origin)
      precondition(!verdict || !list.isEmpty)
      precondition(verdict == NoProxyList((lines.last ?? "") + ",").exempts(origin), "an empty entry says something")
    }
  }

  /// Each line is a variable; what holds for a place is found a second time, from the names alone.
  private static func environment(_ text: String) {
    var variables: [String: String] = [:]
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      if parts.count == 2 { variables[String(parts[0])] = String(parts[1]) }
    }
    let environment = ProxyEnvironment { variables[$0] }
    for (url, names) in [
      ("http://a.example/", ["http_proxy", "all_proxy", "ALL_PROXY"]),
      ("https://[2001:db8::1]/", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
    ] {
      guard let origin = try? URLReader.read(url).origin else { preconditionFailure("a URL of ours is unreadable") }
      let name = names.first { variables[$0]?.isEmpty == false }
      let setting = environment.setting(for: origin)
      precondition(setting == .none || !environment.isEmpty)
      guard let name, let value = variables[name], !environment.exceptions.exempts(origin) else {
        precondition(setting == .none, "a proxy that nobody named, or in spite of an exception")
        continue
      }
      if let server = try? ProxyURLReader.read(value) {
        precondition(setting == .proxy(server), "another proxy than the environment names")
      } else if case .malformed(name, _) = setting {
        continue
      } else {
        preconditionFailure("a proxy that was misspelt was passed by")
      }
    }
  }
}
