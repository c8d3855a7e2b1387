internal import LupineRules

/// What `--resolve` says: `host:port:address`, as curl has it. Of IPv6 addresses, brackets may be left out at the end, and have to stand where the host is
/// one.
enum NameOverrides {
  /// What the configuration of a session takes: "host:port" and "address:port".
  static func read(_ texts: [String]) throws(CommandFailure) -> [String: String] {
    var overrides: [String: String] = [:]
    for text in texts {
      let (name, address) = try read(text)
      let old = overrides.updateValue(address, forKey: name)
      guard old == nil || old == address else {
        throw .misuse("--resolve gives \(name) two addresses; one is what is connected to")
      }
    }
    return overrides
  }

  private static func read(_ text: String) throws(CommandFailure) -> (name: String, address: String) {
    guard let end = endOfName(text), let endpoint = try? URLReader.readEndpoint(String(text[..<end])),
      endpoint.host.zone == nil, let address = try? HostReader.read(String(text[text.index(after: end)...])),
      address.isAddress
    else {
      throw .misuse("--resolve \"\(text)\" is not of the form host:port:address, such as api.example:443:127.0.0.1")
    }
    let zone = address.zone.map { "%\($0)" } ?? ""
    let host = address.kind == .ipv6 ? "[\(address.text)\(zone)]" : address.text
    return ("\(endpoint.host.bracketed):\(endpoint.port)", "\(host):\(endpoint.port)")
  }

  /// The colon behind the port: the second one that stands in no brackets.
  private static func endOfName(_ text: String) -> String.Index? {
    var isInBrackets = false
    var colons = 0
    for index in text.indices {
      switch text[index] {
      case "[": isInBrackets = true
      case "]": isInBrackets = false
      case ":" where !isInBrackets:
        colons += 1
        if colons == 2 { return index }
      default: break
      }
    }
    return nil
  }
}
