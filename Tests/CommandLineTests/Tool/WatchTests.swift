import Foundation
import Glibc
import LupineRules
import LupineTestSupport
import Testing

@testable import lupine

/// `lupine watch`, on this machine and in a network namespace of its own, whose links, routes and addresses come and go.
@Suite(.timeLimit(.minutes(2))) struct WatchTests {
  @Test func thisMachine() async throws {
    for host in ["127.0.0.1", "localhost", "::1"] {
      let outcome = try await Tool.run(["watch", host, "--count", "1"])
      #expect(outcome.status == 0 && outcome.text == "Reachable via Ethernet\n", "\(outcome.error)")
    }
    let outcome = try await Tool.run(["watch", "127.1", "-n", "1", "--json"])
    #expect(outcome.text == #"{"status":"notReachable","isReachable":false,"description":"Not Reachable"}"# + "\n")
  }

  @Test func misuse() async throws {
    for host in ["localhost:80", "http://localhost/", "localhost/", "[::1]", "[::1]:80", "u@localhost", "a b"] {
      let outcome = try await Tool.run(["watch", host, "-n", "1"])
      #expect(outcome.status == ExitStatus.misuse.rawValue && outcome.text == "")
      #expect(outcome.error.contains("HOST is a name or an address alone"), "\(outcome.error)")
    }
    for arguments in [["watch", "-n", "0"], ["watch", ""], ["watch", "a", "b"], ["watch", "--count", "x"]] {
      #expect(try await Tool.run(arguments).status == ExitStatus.misuse.rawValue)
    }
  }

  @Test(.enabled(if: Namespace.isAvailable, "\(Namespace.hint)")) func linksRoutesAndAddresses() async throws {
    let namespace = try Namespace()
    defer { namespace.end() }
    try await namespace.run("ip link set lo up; ip link add v0 type veth peer name v1; ip link set v1 up")
    let lines = namespace.start(["watch", "--json"])
    let address = namespace.start(["watch", "198.51.100.7"])
    let rows: [(command: String, anywhere: Bool, address: Bool)] = [
      (":", false, false),
      // An address, and a route out.
      ("ip link set v0 up; ip addr add 192.0.2.1/24 dev v0; ip route add default via 192.0.2.254", true, true),
      // The route vanishes; another leads to the one address.
      ("ip route del default", false, false),
      ("ip route add 198.51.100.0/24 via 192.0.2.254", false, true),
      ("ip route add default via 192.0.2.254", true, true),
      // The cable is pulled at the other end, and put back.
      ("ip link set v1 down", false, false), ("ip link set v1 up", true, true),
      // Down and up again: the kernel has forgotten the routes, without a word about them.
      ("ip link set v0 down", false, false),
      ("ip link set v0 up; ip route add default via 192.0.2.254", true, true),
      // Without an address there is nothing to send from; the routes go with it.
      ("ip addr del 192.0.2.1/24 dev v0", false, false),
      ("ip addr add 192.0.2.1/24 dev v0; ip route add default via 192.0.2.254", true, true),
      // A black hole is no way.
      ("ip route add blackhole 198.51.100.0/24", true, false),
      ("ip route del blackhole 198.51.100.0/24", true, true), ("ip link del v0", false, false),
      // IPv6.
      (
        "ip link add v2 type veth peer name v3; ip link set v2 up; ip link set v3 up; "
          + "ip addr add 2001:db8::1/64 dev v2 nodad; ip -6 route add default via 2001:db8::fe dev v2", true, false
      ),
    ]
    var (anywhere, toAddress): ([Bool], [Bool]) = ([], [])
    for row in rows {
      try await namespace.run(row.command)
      // A command may pass through other states on its way; the last one counts.
      if anywhere.last != row.anywhere {
        try await namespace.wait { lines().last.map { $0.contains(#""isReachable":true"#) } == row.anywhere }
        anywhere.append(row.anywhere)
      }
      if toAddress.last != row.address {
        try await namespace.wait { address().last.map { $0.hasPrefix("Reachable") } == row.address }
        toAddress.append(row.address)
      }
    }
    // Everything was said, and nothing twice in a row. What a command passes through may have been seen as well: a link that comes up does so
    // before it has a carrier. So there and back once more at most, for each command that brings one up.
    let detours = rows.count { $0.command.contains(" up") }
    for (said, wanted) in [
      (lines().map { $0.contains(#""isReachable":true"#) }, anywhere),
      (address().map { $0.hasPrefix("Reachable") }, toAddress),
    ] {
      #expect(said.count >= wanted.count && said.count <= wanted.count + 2 * detours)
      #expect(said.first == wanted.first && said.last == wanted.last)
      #expect(zip(said, said.dropFirst()).allSatisfy { $0 != $1 })
    }
  }
}

/// A network namespace with a shell in it; it is gone with the shell.
private final class Namespace {
  static let hint =
    "a network namespace takes root (or user namespaces), unshare and ip: apt-get install -y iproute2 util-linux"

  /// In CI a namespace that cannot be made fails the tests.
  static let isAvailable: Bool = {
    if ProcessInfo.processInfo.environment["CI"] == "true" { return true }
    let probe = Process()
    probe.executableURL = URL(filePath: "/bin/sh")
    probe.arguments = ["-c", "unshare \(flags) sh -c 'ip link add a0 type veth peer name a1' 2>/dev/null"]
    return (try? probe.run()).map {
      probe.waitUntilExit()
      return probe.terminationStatus == 0
    } ?? false
  }()

  private static let flags = geteuid() == 0 ? "-n" : "-rn"

  private let folder: Folder
  private let input: FileHandle
  private let shell = Process()
  private var counter = 0

  init() throws {
    folder = try Folder()
    let pipe = Pipe()
    shell.executableURL = URL(filePath: "/bin/sh")
    shell.arguments = ["-c", "exec unshare \(Self.flags) sh"]
    shell.currentDirectoryURL = folder.root
    shell.environment = ProcessInfo.processInfo.environment.merging(["PATH": "/usr/sbin:/usr/bin:/sbin:/bin"]) { $1 }
    shell.standardInput = pipe
    try folder.write("", to: "errors")
    shell.standardError = try FileHandle(forWritingTo: folder.url("errors"))
    try shell.run()
    input = pipe.fileHandleForWriting
  }

  /// Runs a command to its end; one that fails fails the test.
  func run(_ command: String) async throws {
    counter += 1
    let marker = "done-\(counter)"
    try input.write(
      contentsOf: Data(
        "{ \(command); } && echo ok >\(marker).new || echo failed >\(marker).new; mv \(marker).new \(marker)\n".utf8))
    try await wait { FileManager.default.fileExists(atPath: folder.path(marker)) }
    let result = try String(contentsOf: folder.url(marker), encoding: .utf8)
    let errors = try String(contentsOf: folder.url("errors"), encoding: .utf8)
    try #require(result == "ok\n" && errors.isEmpty, "\(command): \(errors); \(Self.hint)")
  }

  /// Starts the tool; the result gives the lines that it has printed so far.
  func start(_ arguments: [String]) -> @Sendable () -> [String] {
    let name = "output-\(UUID().uuidString)"
    let words = ([Tool.path] + arguments).map { "'\($0)'" }.joined(separator: " ")
    try? input.write(contentsOf: Data("\(words) >\(name) & echo $! >>processes\n".utf8))
    let file = folder.url(name)
    return {
      let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
      return text.split(separator: "\n").map(String.init)
    }
  }

  func wait(_ condition: () -> Bool) async throws {
    try #require(await eventually(condition), "it did not come to that; \(Self.hint)")
  }

  /// Ends the shell and what it started.
  func end() {
    try? input.write(contentsOf: Data("kill $(cat processes); exit\n".utf8))
    try? input.close()
    shell.waitUntilExit()
  }
}
