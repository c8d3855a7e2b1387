internal import ArgumentParser

/// What is kept between runs.
struct SessionOptions: ParsableArguments {
  @Option(
    name: .customLong("session"),
    help: ArgumentHelp("Keep cookies in this file between runs; it is made when it is missing.", valueName: "file"))
  var path: String?
}
