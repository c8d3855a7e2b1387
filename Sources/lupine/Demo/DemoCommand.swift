internal import ArgumentParser

struct DemoCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "demo", abstract: "Demo.")

  mutating func run() async throws {
    throw CommandFailure(.failure, "not built yet")
  }
}
