internal import ArgumentParser
import Glibc
internal import LupineCommandLine
internal import LupineSession

/// `lupine`: fetches (the default), `batch`, `bench`, `demo` and `watch`.
struct LupineCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "lupine",
    abstract: "An HTTP client for people and programs, on a network stack of its own.",
    discussion: """
      `lupine URL` fetches; `lupine --help` describes that, its main form.

      \(ExitStatus.table)
      """,
    version: "lupine 0.1",
    subcommands: [FetchCommand.self, BatchCommand.self, BenchCommand.self, DemoCommand.self, WatchCommand.self],
    defaultSubcommand: FetchCommand.self)
}

@main
enum Main {
  static func main() async {
    System.occupyClosedStreams()
    System.ignoreBrokenPipes()
    let status: ExitStatus
    do throws(CommandFailure) {
      status = await run(try System.arguments())
    } catch {
      status = report(error, isMainForm: true)
    }
    exit(status.rawValue)
  }

  /// Runs a command line; the message of a failure has been written when it returns.
  static func run(_ arguments: [String]) async -> ExitStatus {
    // Without this detour `--help` would describe the root, which has nothing to say, instead of the main form.
    // The main form has no word before it: what is called as the tool is a host.
    let commands = LupineCommand.configuration.subcommands.compactMap { $0.configuration.commandName }
    let names = commands.filter { $0 != FetchCommand.configuration.commandName } + ["help"]
    let isMainForm = arguments.first.map { !names.contains($0) && $0 != "--version" } ?? true
    if isMainForm {
      for warning in CurlHabits.warnings(arguments) { System.tell("lupine: \(warning)\n") }
    }
    let parsed: any ParsableCommand
    do {
      parsed = isMainForm ? try FetchCommand.parse(arguments) : try LupineCommand.parseAsRoot(arguments)
    } catch {
      return report(parsing: error, isMainForm: isMainForm)
    }
    do {
      if var command = parsed as? any AsyncParsableCommand {
        try await command.run()
      } else {
        var command = parsed
        try command.run()
      }
      return .success
    } catch {
      return report(error, isMainForm: isMainForm)
    }
  }

  private static func report(parsing error: any Error, isMainForm: Bool) -> ExitStatus {
    let root: any ParsableCommand.Type = isMainForm ? FetchCommand.self : LupineCommand.self
    let message = root.fullMessage(for: error)
    if root.exitCode(for: error) == .success {
      return show(message)
    }
    System.tell(TerminalText.escaped(message, keepsLines: true) + "\n")
    return .misuse
  }

  /// What somebody has asked to read.
  private static func show(_ message: String) -> ExitStatus {
    do throws(System.Failure) {
      try System.print(message + "\n")
      return .success
    } catch {
      return report(error, isMainForm: false)
    }
  }

  private static func report(_ error: any Error, isMainForm: Bool) -> ExitStatus {
    switch error {
    case let failure as CommandFailure:
      if !failure.message.isEmpty {
        System.tell("lupine: \(TerminalText.escaped(failure.message, keepsLines: true))\n")
      }
      return failure.status
    case let error as SessionError:
      let advice = error.advice.isEmpty ? "" : "\n        \(error.advice)"
      System.tell("lupine: \(TerminalText.escaped(error.forTool.description))\(advice)\n")
      return ExitStatus(error)
    case let failure as System.Failure where failure.isReaderGone: return .failure
    case let failure as System.Failure:
      System.tell("lupine: \(TerminalText.escaped(failure.description))\n")
      return .failure
    case is ValidationError, is CleanExit:
      return report(parsing: error, isMainForm: isMainForm)
    case let error where LupineCommand.exitCode(for: error) == .success:
      // `help` and `--help` of a subcommand are commands that throw what they have to say.
      return report(parsing: error, isMainForm: isMainForm)
    default:
      System.tell("lupine: \(TerminalText.escaped("\(error)"))\n")
      return .failure
    }
  }
}
