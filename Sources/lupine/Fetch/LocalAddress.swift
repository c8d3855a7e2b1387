internal import LupineRules

/// What `--interface` says: an address, of what curl takes there.
enum LocalAddress {
  static func read(_ text: String) throws(CommandFailure) -> String {
    guard let host = try? HostReader.read(text), host.isAddress else {
      throw .misuse("--interface \"\(text)\" is no address, such as 192.0.2.7; names of interfaces are not taken")
    }
    return text
  }
}
