internal import ArgumentParser
internal import Lupine

/// Tells how far the network reaches, and every change of it.
struct WatchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "watch",
    abstract: "Tell how far the network reaches, now and whenever that changes.",
    usage: "lupine watch [HOST] [--count n] [--json]",
    discussion: """
      Prints a line at once, and another with every change, until it is stopped or has printed --count of them. Without HOST it asks for a \
      default route; HOST is a name, resolved anew with every change, or an address. It reads the routes of this machine and sends nothing: \
      "reachable" says that there is a way, not that somebody is there.

      With --json each line is an object: {"status":"reachableViaWiFi","isReachable":true,"description":"Reachable via WiFi"}; status is \
      unknown, notReachable, reachableViaWWAN, reachableViaWiFi or reachableViaEthernet.
      """)

  @Argument(help: ArgumentHelp("A host or an address (default: anywhere).", valueName: "host"))
  var host: String?

  @Option(name: [.customShort("n"), .long], help: ArgumentHelp("End after so many lines.", valueName: "n"))
  var count: Int?

  @Flag(name: .customLong("json"), help: "Print a JSON object on each line.")
  var printsJSON = false

  func validate() throws {
    if let count, count < 1 { throw ValidationError("--count is at least 1.") }
    if host?.isEmpty == true { throw ValidationError("HOST is empty.") }
    if let host, !Self.canBeHost(host) {
      throw ValidationError("HOST is a name or an address alone, without scheme, user, port, path and brackets.")
    }
  }

  /// Nothing would ever be reachable that only a URL can hold. One colon begins a port; addresses have several.
  static func canBeHost(_ text: String) -> Bool {
    !text.contains { "/?#@[]".contains($0) || $0.isWhitespace } && text.count { $0 == ":" } != 1
  }

  mutating func run() async throws {
    let manager = host.map { NetworkReachabilityManager(domain: $0) } ?? NetworkReachabilityManager()
    let statuses = manager.statuses
    try manager.startMonitoring()
    var printed = 0
    for await status in statuses {
      let line = WatchLine(name: "\(status)", isReachable: status.isReachable, text: status.localizedString)
      try System.print(printsJSON ? line.json : line.text + "\n")
      printed += 1
      if printed == count { break }
    }
    manager.stopMonitoring()
  }
}
