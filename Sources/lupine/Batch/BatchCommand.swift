internal import ArgumentParser

struct BatchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "batch", abstract: "Batch.")

  mutating func run() async throws {
    throw CommandFailure(.failure, "not built yet")
  }
}
