// swift-tools-version: 6.2
import PackageDescription

// ThreadSanitizer on Linux does not see `Synchronization.Mutex`: `LockedStorage` tells it then.
let threadSanitizer: [SwiftSetting] =
  Context.environment["LUPINE_SANITIZE"] == "thread" ? [.define("LUPINE_THREAD_SANITIZER")] : []

// One set of settings for every target: see Docs/Architecture.md, "Settings".
let settings: [SwiftSetting] =
  [
    .swiftLanguageMode(.v6),
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .enableUpcomingFeature("InferIsolatedConformances"),
    .enableExperimentalFeature("Lifetimes"),
  ] + threadSanitizer

// `make test` compiles without debug information. The modules of tests are for debuggers alone: without them the compiler looks at all macros once, not twice.
let testSettings: [SwiftSetting] =
  settings + (Context.environment["LUPINE_NO_DEBUG_INFO"] == nil ? [] : [.unsafeFlags(["-no-emit-module-separately"])])

func library(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], resources: [Resource] = []) -> Target {
  .testTarget(name: name, dependencies: dependencies, resources: resources, swiftSettings: testSettings)
}

// Runners exist only for `FUZZ=1 swift build --sanitize=fuzzer`: libFuzzer brings their `main`.
let fuzzRunners: [Target] =
  Context.environment["FUZZ"] == nil
  ? []
  : [
    "ResponseParser", "ChunkedDecoder", "RequestEncoder", "Redirect", "URLReader", "ContentDecoder", "PoolWalk",
    "Cookies",
    "ImageHeader",
    "ResumeData",
    "WWWAuthenticate",
    "Archive",
    "FieldValues",
    "TLSEngine",
    "Multipart",
    "QueryString",
    "StructuredText",
    "Netlink",
    "Digest",
    "Certificates",
    "JSONText",
    "ShellQuoting",
    "ClientConnection",
    "CacheEntry",
    "ProxyHandshake",
    "Addresses",
    "StoredFiles",
    "EventStream",
    "BatchLines",
    "TerminalText",
  ].map { name in
    .executableTarget(
      name: "Fuzz\(name)", dependencies: ["LupineFuzzBodies"], path: "Fuzz/Runners/\(name)",
      swiftSettings: settings + [.unsafeFlags(["-parse-as-library"])])
  } + [
    // Runs the corpora alone, for coverage.
    .executableTarget(
      name: "FuzzReplay", dependencies: ["LupineFuzzBodies"], path: "Fuzz/Replay", swiftSettings: settings),
    // What our readers make of inputs, to be held against what others do.
    .executableTarget(
      name: "FuzzDifferential", dependencies: ["LupineEngine", "LupineRules", "LupineTLS", "LupineWire"],
      path: "Fuzz/Differential", exclude: ["llhttp_peer.c", "README.md"], swiftSettings: settings),
  ]

// The documentation's plugin is a dependency only for `make docs`: nobody who embeds Lupine fetches it.
let documentation: [Package.Dependency] =
  Context.environment["LUPINE_DOCS"] == nil
  ? [] : [.package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.4.0")]

extension Product {
  /// What embedders name: a target, under its own name.
  static func module(_ name: String) -> Product { library(name: name, targets: [name]) }
}

let package = Package(
  name: "Lupine",
  products: [
    .module("Lupine"),
    .module("LupineXML"),
    .module("LupineSession"),
    .module("LupineWire"),
    .module("LupineTesting"),
    .executable(name: "lupine", targets: ["lupine"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
  ] + documentation,
  targets: [
    // C headers and one-line wrappers for macros and vector compares; no logic.
    .target(name: "CLupineLinux"),
    .target(name: "CLupineVector"),
    .target(
      name: "CLupineOpenSSL",
      linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
    .target(name: "CLupineZlib", linkerSettings: [.linkedLibrary("z")]),

    // Bottom floor.
    library("LupineBase", ["CLupineLinux"]),

    // Bytes, decisions and effects: these four never import each other, except Rules -> Wire.
    library("LupineWire", ["LupineBase", "CLupineVector"]),
    library("LupineRules", ["LupineBase", "LupineWire"]),
    library("LupineTLS", ["LupineBase", "CLupineOpenSSL", "CLupineLinux"]),
    library("LupineIO", ["LupineBase", "CLupineLinux"]),

    // Composition.
    library(
      "LupineEngine",
      ["LupineBase", "LupineWire", "LupineRules", "LupineTLS", "LupineIO", "CLupineZlib"]),
    library(
      "LupineSession",
      [
        "LupineEngine", "LupineIO", "LupineTLS", "LupineRules", "LupineWire", "LupineBase",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ]),

    // Managers: full Foundation from here up.
    library("Lupine", ["LupineSession", "LupineRules", "LupineWire", "LupineIO", "LupineBase"]),
    // Apart, because FoundationXML links libxml2.
    library("LupineXML", ["Lupine", "LupineRules", "LupineBase"]),

    // What the tool reads and writes: apart from it, because no target can import an executable.
    library(
      "LupineCommandLine",
      ["LupineSession", "LupineRules", .product(name: "HTTPTypes", package: "swift-http-types")]),

    // Support for tests, demo and users' tests; no library target depends on it.
    library(
      "LupineTesting",
      ["LupineSession", "LupineWire", "CLupineLinux", "CLupineOpenSSL", "CLupineZlib", "LupineBase"]),

    .executableTarget(
      name: "lupine",
      dependencies: [
        "LupineCommandLine", "Lupine", "LupineSession", "LupineTesting", "LupineRules", "LupineWire", "LupineBase",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ],
      swiftSettings: settings),

    // A network inside the process, and what is the same every time: for the fuzz bodies and the simulation.
    .target(
      name: "LupineSimulation",
      dependencies: ["LupineBase", "LupineWire", "LupineRules", "LupineIO", "LupineEngine"],
      path: "Fuzz/Simulation", swiftSettings: settings),

    .executableTarget(
      name: "simulate", dependencies: ["LupineSimulation"], path: "Fuzz/Simulate", swiftSettings: settings),

    // Fuzz bodies are library functions: the runners call them under libFuzzer, and `swift test` replays the corpora.
    .target(
      name: "LupineFuzzBodies",
      dependencies: [
        "LupineBase", "LupineWire", "LupineRules", "LupineTLS", "LupineIO", "LupineEngine", "LupineSession",
        "LupineCommandLine", "LupineSimulation", "CLupineZlib",
        .product(name: "HTTPTypes", package: "swift-http-types"),
      ],
      path: "Fuzz/Bodies", swiftSettings: settings),

    // What several test targets need and users do not.
    .target(name: "LupineTestSupport", path: "Tests/Support", swiftSettings: settings),

    // Counts what a request allocates: in its optimised form only does that say anything, so it is a program, and no test.
    .target(name: "CAllocations", path: "Tests/CAllocations"),
    .executableTarget(
      name: "allocations", dependencies: ["LupineSession", "LupineTesting", "CAllocations"], path: "Tests/Allocations",
      swiftSettings: settings),

    // How much of the heap is in use: Swift does not say it.
    .target(name: "CHeap", path: "Tests/CHeap"),

    // What a sandbox does: Swift cannot call what makes one.
    .target(name: "CSystemCallFilter", path: "Tests/CSystemCallFilter"),

    tests("LupineBaseTests", ["LupineBase"]),
    tests("LupineWireTests", ["LupineWire", "LupineBase", "LupineTestSupport"], resources: [.copy("Cases")]),
    tests(
      "LupineRulesTests", ["LupineRules", "LupineWire", "LupineTLS", "LupineBase", "LupineTestSupport"],
      resources: [.copy("Cases")]),
    tests("LupineIOTests", ["LupineIO", "LupineBase", "CLupineLinux", "CSystemCallFilter"]),
    tests(
      "LupineTLSTests",
      ["LupineTLS", "LupineBase", "LupineTesting", "LupineTestSupport", "CLupineOpenSSL", "CSystemCallFilter"]),
    tests(
      "LupineTestingTests",
      [
        "LupineTesting", "LupineSession", "LupineWire", "LupineTestSupport", "CLupineOpenSSL", "CLupineZlib",
        .product(name: "HTTPTypes", package: "swift-http-types"),
      ]),
    tests(
      "LupineEngineTests",
      [
        "LupineEngine", "LupineIO", "LupineTLS", "LupineRules", "LupineWire", "LupineBase", "LupineTesting",
        "LupineFuzzBodies", "LupineSimulation", "LupineTestSupport", "CLupineOpenSSL", "CLupineZlib",
      ]),
    tests(
      "CommandLineTests",
      [
        "lupine", "LupineCommandLine", "LupineSession", "LupineRules", "LupineTesting", "LupineTestSupport",
        .product(name: "HTTPTypes", package: "swift-http-types"),
      ]),
    tests(
      "LupineSessionTests",
      [
        "LupineSession", "LupineEngine", "LupineIO", "LupineTLS", "LupineRules", "LupineWire", "LupineBase",
        "LupineTesting", "LupineTestSupport", "CHeap",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ], resources: [.copy("Cases")]),
    tests(
      "LupineTests",
      [
        "Lupine", "LupineSession", "LupineRules", "LupineIO", "LupineTLS", "LupineWire", "LupineBase", "LupineTesting",
        "LupineTestSupport",
        .product(name: "HTTPTypes", package: "swift-http-types"),
      ], resources: [.copy("Cases")]),
    tests("LupineXMLTests", ["LupineXML", "LupineSession", "LupineRules", "LupineWire", "LupineTesting"]),
    // As programs are whose default is the main actor: what the compiler demands of them there is as the documentation says.
    .testTarget(
      name: "MainActorTests", dependencies: ["Lupine", "LupineSession", "LupineTesting"],
      swiftSettings: testSettings + [.defaultIsolation(MainActor.self)]),
    tests("FuzzReplayTests", ["LupineFuzzBodies", "LupineSimulation"]),
  ] + fuzzRunners
)

// What has a `main` of its own cannot be linked with libFuzzer's: without it all runners are built at once, and not one by one.
if Context.environment["FUZZ"] == "runners" {
  // Nor is what no runner needs worth its minute.
  let left: Set = [
    "lupine", "simulate", "allocations", "FuzzReplay", "FuzzDifferential", "Lupine", "LupineXML", "LupineTesting",
  ]
  package.products.removeAll { left.contains($0.name) }
  package.targets.removeAll { left.contains($0.name) || $0.type == .test }
}
