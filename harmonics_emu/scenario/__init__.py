"""Scenario files: what an experiment consists of, read strictly and checked as a whole."""

from harmonics_emu.scenario.loader import builtin_names, load_scenario, parse_scenario
from harmonics_emu.scenario.problems import Problem, ScenarioError
from harmonics_emu.scenario.scenario import Scenario

__all__ = ["Problem", "Scenario", "ScenarioError", "builtin_names", "load_scenario", "parse_scenario"]
