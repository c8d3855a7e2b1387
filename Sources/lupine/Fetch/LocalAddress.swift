internal import LupineRules

/// What `--interface` says: an address, of what curl takes there.
enum LocalAddress {
  static func read(_ text: String) throws(CommandFailure) -> String {
    // A zone is the system's to know.
    let address = String(text.prefix { $0 != "%" })
    let closed = text.hasPrefix("[") && !address.hasSuffix("]") ? address + "]" : address
    guard let host = try? HostReader.read(closed), host.isAddress else {
      throw .misuse("--interface \"\(text)\" is no address, such as 192.0.2.7; names of interfaces are not taken")
    }
    return text
  }
}
