internal import ArgumentParser
internal import LupineCommandLine

/// Shows everything against a server that it starts itself; nothing is canned.
struct DemoCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract: "Show everything against an HTTPS server that it starts itself.",
    discussion: """
      Starts a loopback HTTPS server with a certificate minted on the spot and a private authority, and talks to it over real sockets. \
      Needs no network. The exit status is 0 only if every step behaves as it should.
      """)

  @Option(help: ArgumentHelp("How long the benchmark at the end runs.", valueName: "seconds"))
  var seconds = 2.0

  func validate() throws {
    if !(seconds > 0 && seconds < 1e4) { throw ValidationError("--seconds is a number above 0.") }
  }

  mutating func run() async throws {
    let console = Console.current
    let stage = try DemoStage()
    defer { stage.close() }
    let style = console.outputStyle
    try System.print(
      style.paint("lupine demo", .bold) + ": an HTTPS server at \(stage.url("/")), its certificate minted just now\n\n")
    var failed = 0
    for step in DemoStep.all(seconds: seconds) {
      let begin = System.now()
      do {
        let lines = try await step.run(stage, console)
        let time = style.paint(Units.nanoseconds(System.now() - begin), .dim)
        try System.print("\(style.paint("✓", .bold, .green)) \(style.paint(step.name, .bold))  \(time)\n")
        for line in lines { try System.print("    \(line)\n") }
      } catch let error as System.Failure {
        throw error
      } catch {
        failed += 1
        try System.print("\(style.paint("✗", .bold, .red)) \(style.paint(step.name, .bold))\n")
        try System.print("    \(TerminalText.escaped("\(error)"))\n")
      }
    }
    try System.print("\n")
    if failed > 0 { throw CommandFailure(.failure, "\(failed) steps of the demo did not behave") }
    try System.print("Everything behaved. Your turn: `lupine https://example.com/`, `lupine --help`.\n")
  }
}
